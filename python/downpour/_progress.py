"""What happens while the library trains: Ctrl-C, and a line for each epoch."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import Any, Iterator, Mapping


@contextlib.contextmanager
def noting_interrupts(raised: list[BaseException]) -> Iterator[None]:
    """Appends KeyboardInterrupt to `raised` when Ctrl-C is pressed, because ctypes drops what is raised before the first
    line of a callback. Does nothing in other threads, or if the program handles SIGINT itself."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda _signal, _frame: raised.append(KeyboardInterrupt()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def print_epochs(progress: Mapping[str, Any]) -> None:
    """Prints the new lines of the history."""
    for line in progress["history"]:
        figures = "  ".join(
            f"{part} {name} {value:.4f}" for part in ("train", "eval") for name, value in line.get(part, {}).items())
        print(f"epoch {line['epoch']:>3}  {figures}", flush=True)
