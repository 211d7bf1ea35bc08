"""`python -m downpour convert SOURCE... --out FILE` writes tables for the programs; other arguments go to `downpour`."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

from . import _files
from ._programs import program


def _convert(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m downpour convert",
        description="Writes Parquet files, Feather files or pickles of pandas as a file that the programs read.")
    parser.add_argument("source", nargs="+", help="files with the same columns, or a folder of Parquet files")
    parser.add_argument("--out", required=True, metavar="FILE", help="*.csv or *.jsonl, each also *.gz")
    parser.add_argument("--allow-pickle", action="store_true", help="read pickles, which can run any program")
    flags = parser.parse_args(arguments)
    try:
        done = _files.convert(flags.source, flags.out, allow_pickle=flags.allow_pickle)
    except ImportError as error:
        package = "pandas" if (error.name or "").startswith("pandas") else "pyarrow"
        print(f"error: {error}; pip install {package}", file=sys.stderr)
        return 69
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 65
    size = pathlib.Path(flags.out).stat().st_size
    more = " --set data.quoted_newlines=true" if done.has_breaks else ""
    more += " --set data.header=true" if done.names_are_numbers else ""
    print(f"{flags.out}: {done.records} records, {size / 1e6:.1f} MB; to train: downpour train {flags.out}{more}")
    return 0


def main() -> int:
    if sys.argv[1:2] == ["convert"]:
        return _convert(sys.argv[2:])
    try:
        path = program("downpour")
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 69
    os.execv(path, ["downpour", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
