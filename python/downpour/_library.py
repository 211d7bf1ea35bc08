"""Loads libdownpour.so."""

import ctypes
import os
import pathlib
import platform

_FOLDER = pathlib.Path(__file__).parent / "lib"
_INSTRUCTIONS = {"avx2", "bmi2", "fma", "f16c", "movbe"}  # of x86-64-v3, for which the wheel is built


def _missing_instructions():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), None)
    return set() if flags is None else _INSTRUCTIONS - set(flags)


def load():
    """Returns the library. DOWNPOUR_LIBRARY names another file than that of the package."""
    path = os.environ.get("DOWNPOUR_LIBRARY")
    if not path:
        path = _FOLDER / "libdownpour.so"
        if missing := _missing_instructions():
            raise ImportError(f"downpour needs a processor with {', '.join(sorted(missing))}; this one is "
                              f"{platform.processor() or platform.machine()}: build Downpour from source on it")
    return ctypes.CDLL(str(path))
