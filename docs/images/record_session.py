#!/usr/bin/env python3
"""Records the terminal session of the README as docs/images/session.svg.

    pip install pyte rich && docs/images/record_session.py build/release/bin

Each command runs in a pseudo-terminal of 128 columns; the picture shows what the screen shows when it has ended.
"""
import fcntl
import itertools
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, LINES = 128, 60
COMMANDS = [
    "downpour synth clicks.tsv --rows 200000 --ids 100",
    "downpour train clicks.tsv",
    "downpour synth more.tsv --rows 50000 --ids 100 --stream 1",
    "downpour eval runs/clicks --data more.tsv",
]


def run(command, folder, path):
    """The screen after `command`, as rich text without trailing empty lines."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    env = os.environ | {"PATH": f"{path}:{os.environ['PATH']}", "TERM": "xterm-256color"}
    process = subprocess.Popen(command.split(), cwd=folder, env=env, stdin=child, stdout=child, stderr=child)
    os.close(child)
    while True:
        try:
            stream.feed(os.read(parent, 65536))
        except OSError:  # the last process has closed its end
            break
    if process.wait() != 0:
        sys.exit(f"`{command}` ended with {process.returncode}")
    text = Text()
    for y in range(screen.cursor.y):
        cells = [screen.buffer[y][x] for x in range(COLUMNS)]
        while cells and cells[-1].data == " ":
            cells.pop()
        for (color, bold), run_of in itertools.groupby(cells, lambda cell: (cell.fg, cell.bold)):
            style = Style(color=None if color == "default" else color, bold=bold)
            text.append("".join(cell.data for cell in run_of), style)
        text.append("\n")
    return text


def main():
    programs = Path(sys.argv[1]).resolve()
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"), force_terminal=True,
                      color_system="truecolor", highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            console.print(Text(f"$ {command}", Style(bold=True)))
            shown = run(command, folder, programs)
            for line in shown.split("\n", allow_blank=False):
                plain = line.plain.replace(folder, "~")
                console.print(line if plain == line.plain else Text(plain), soft_wrap=True)
    console.save_svg(str(Path(__file__).with_name("session.svg")), title="downpour")


if __name__ == "__main__":
    main()
