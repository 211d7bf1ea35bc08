"""The C interface of libdownpour.so (tools/capi/downpour.h), called by ctypes."""

from __future__ import annotations

import ctypes
import os
import pathlib
import platform
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p

__all__ = ["DownpourError", "library", "check", "Column", "Training", "PROGRESS"]


class DownpourError(ValueError):
    """An error that Downpour reports.

    Attributes:
        id: "DP-2104"; ``downpour explain DP-2104`` describes it.
        what: what happened.
        where: the key of the job, the row or the path; may be empty.
        hint: what to change; may be empty.
        code: the exit status that the program ``downpour`` has for this error.
    """

    def __init__(self, code: int, id: str, what: str, where: str, hint: str):
        self.code, self.id, self.what, self.where, self.hint = code, id, what, where, hint
        text = what
        if where:
            text += f" ({where})"
        if hint:
            text += f"; {hint}"
        super().__init__(f"{id}: {text}" if id else text)

    def __reduce__(self):
        return DownpourError, (self.code, self.id, self.what, self.where, self.hint)


class Error(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("code", c_int32),
        ("id", c_char_p),
        ("what", c_char_p),
        ("where", c_char_p),
        ("hint", c_char_p),
    ]


class Column(ctypes.Structure):
    """dp_column"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int32),
        ("type", c_char_p),
        ("values", c_void_p),
        ("stride", c_int64),
        ("width", c_uint64),
        ("valid", c_void_p),
        ("valid_begin", c_uint64),
        ("offsets", c_void_p),
        ("wide_offsets", c_int32),
        ("text", c_void_p),
        ("text_count", c_uint64),
        ("start_type", c_char_p),
        ("starts", c_void_p),
        ("key_type", c_char_p),
        ("keys", c_void_p),
    ]


NUMBERS, TEXTS, DICTIONARY, PAIRS = range(4)

PROGRESS = ctypes.CFUNCTYPE(c_int32, c_char_p, c_void_p)


class Training(ctypes.Structure):
    """dp_training"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("job", c_char_p),
        ("folder", c_char_p),
        ("data", c_void_p),
        ("settings", POINTER(c_char_p)),
        ("setting_count", c_size_t),
        ("threads", c_uint32),
        ("on_progress", PROGRESS),
        ("user", c_void_p),
    ]


class ClientOptions(ctypes.Structure):
    """dp_client_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("chief", c_char_p),
        ("keys", c_char_p),
        ("insecure", c_int32),
        ("allow_exec", c_int32),
        ("connect_timeout_s", c_uint32),
    ]


class Push(ctypes.Structure):
    """dp_push"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("gradients", c_void_p),
        ("predictions", c_void_p),
        ("has_loss", c_int32),
        ("loss", c_double),
    ]


class BatchInfo(ctypes.Structure):
    """dp_batch_info"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("records", c_uint64),
        ("training", c_int32),
        ("epoch", c_uint32),
        ("shard", c_uint32),
        ("batch", c_uint32),
        ("where", c_char_p),
    ]


class BatchBag(ctypes.Structure):
    """dp_batch_bag"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("offsets", c_void_p),
        ("rows", c_void_p),
        ("values", c_void_p),
        ("count", c_uint64),
        ("keys", c_void_p),
        ("key_count", c_uint64),
    ]


_FUNCTIONS = {
    "dp_version": (c_char_p, []),
    "dp_last_error": (None, [POINTER(Error)]),
    "dp_table_create": (c_int32, [c_uint64, POINTER(Column), c_size_t, POINTER(c_void_p)]),
    "dp_table_from_arrow": (c_int32, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "dp_table_name": (c_char_p, [c_void_p]),
    "dp_table_rows": (c_uint64, [c_void_p]),
    "dp_table_free": (None, [c_void_p]),
    "dp_train": (c_int32, [POINTER(Training), POINTER(c_void_p)]),
    "dp_model_load": (c_int32, [c_char_p, POINTER(c_void_p)]),
    "dp_model_from_bytes": (c_int32, [c_char_p, c_size_t, POINTER(c_void_p)]),
    "dp_model_save": (c_int32, [c_void_p, c_char_p]),
    "dp_model_to_bytes": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "dp_model_describe": (c_char_p, [c_void_p]),
    "dp_model_row_floats": (c_uint32, [c_void_p]),
    "dp_predict": (c_int32, [c_void_p, c_void_p, c_uint32, c_void_p, c_size_t]),
    "dp_predict_raw": (c_int32, [c_void_p, c_void_p, c_uint32, c_void_p, c_size_t]),
    "dp_model_free": (None, [c_void_p]),
    "dp_free": (None, [c_void_p]),
    "dp_client_open": (c_int32, [POINTER(ClientOptions), POINTER(c_void_p)]),
    "dp_client_describe": (c_int32, [c_void_p, c_uint32, POINTER(c_char_p)]),
    "dp_client_next": (c_int32, [c_void_p, c_uint32, POINTER(c_void_p)]),
    "dp_client_finished": (c_int32, [c_void_p]),
    "dp_client_push": (c_int32, [c_void_p, c_void_p, POINTER(Push)]),
    "dp_client_close": (None, [c_void_p]),
    "dp_batch_describe": (None, [c_void_p, POINTER(BatchInfo)]),
    "dp_batch_numbers": (c_void_p, [c_void_p, c_size_t]),
    "dp_batch_keys": (None, [c_void_p, c_size_t, POINTER(BatchBag)]),
    "dp_batch_variable": (c_void_p, [c_void_p, c_size_t, POINTER(c_uint64)]),
    "dp_batch_free": (None, [c_void_p]),
}

_loaded: ctypes.CDLL | None = None
_forked = False


_FOLDER = pathlib.Path(__file__).parent / "lib"
_INSTRUCTIONS = {"avx2", "bmi2", "fma", "f16c", "movbe"}  # of x86-64-v3, for which the wheel is built


def _missing_instructions() -> set[str]:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), None)
    return set() if flags is None else _INSTRUCTIONS - set(flags)


def _load() -> ctypes.CDLL:
    """DOWNPOUR_LIBRARY names another file than that of the package."""
    path = os.environ.get("DOWNPOUR_LIBRARY")
    if not path:
        path = _FOLDER / "libdownpour.so"
        if missing := _missing_instructions():
            raise ImportError(f"downpour needs a processor with {', '.join(sorted(missing))}; this one is "
                              f"{platform.processor() or platform.machine()}: build Downpour from source on it")
    return ctypes.CDLL(str(path))


def _note_fork() -> None:
    global _forked
    _forked = _loaded is not None


os.register_at_fork(after_in_child=_note_fork)


def library() -> ctypes.CDLL:
    """Returns the library. Its threads do not exist in a child of fork(), so there it raises RuntimeError."""
    global _loaded
    if _forked:
        raise RuntimeError(
            "downpour was used before this process was forked, and its threads are missing here; start the process "
            'with multiprocessing.get_context("spawn"), or import downpour only in the child'
        )
    if _loaded is None:
        loaded = _load()
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        _loaded = loaded
    return _loaded


def release(function: str, handle: c_void_p) -> None:
    """Frees a handle. Does nothing in a child of fork(), which has no use for it."""
    if not _forked and _loaded is not None:
        getattr(_loaded, function)(handle)


def check(code: int) -> None:
    """Raises the last error of this thread if `code` is not 0."""
    if code == 0:
        return
    error = Error(struct_size=ctypes.sizeof(Error))
    library().dp_last_error(ctypes.byref(error))
    texts = [text.decode(errors="replace") for text in (error.id, error.what, error.where, error.hint)]
    raise DownpourError(error.code, *texts)
