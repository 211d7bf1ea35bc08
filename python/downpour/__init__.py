"""Downpour trains models with very large sparse variables on parameter servers."""

import ctypes

from downpour import _library

__all__ = ["version"]

_lib = _library.load()
_lib.dp_version.argtypes = []
_lib.dp_version.restype = ctypes.c_char_p


def version():
    """Returns the version of the library."""
    return _lib.dp_version().decode()


__version__ = version()
