"""What the comparisons with other libraries share: SCRIPT.py BIN FOLDER, where BIN has Downpour's programs."""
import subprocess
import sys
from pathlib import Path

BIN, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
failed = []


def check(what, found, wanted):
    good = found <= wanted
    print(f"{'ok' if good else 'FAILED'}  {what}: {found:.2g} (at most {wanted:g})", flush=True)
    if not good:
        failed.append(what)


def downpour(*arguments):
    ended = subprocess.run([BIN / "downpour", *map(str, arguments)], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"downpour {' '.join(map(str, arguments))} ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout
