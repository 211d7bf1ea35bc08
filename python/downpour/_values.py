"""Values of a column of objects: numbers, texts or vectors, and which of them are missing."""

from __future__ import annotations

import datetime
import sys
import warnings
from decimal import Decimal
from typing import Any, Sequence

import numpy as np

_INTEGERS = (int, np.integer, np.bool_)
_NUMBERS = (*_INTEGERS, float, np.floating, Decimal)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def warn(text: str) -> None:
    """Warns of the line outside this package that called it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("downpour."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def as_array(values: Any) -> np.ndarray:
    """Returns an array. The masked values of a masked array are missing values."""
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return np.asarray(values)
    if values.dtype.kind == "f":
        return values.filled(np.nan)
    return np.where(np.ma.getmaskarray(values), None, values.data.astype(object))


def is_missing(value: Any) -> bool:
    """Returns True for None, NaN, NaT and pandas.NA."""
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (float, np.floating, np.datetime64, np.timedelta64)):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def missing_of(values: Sequence[Any]) -> np.ndarray:
    """Returns which values are missing."""
    return np.fromiter(map(is_missing, values), bool, len(values))


def numbers_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Returns objects that are numbers as an array, and which of them are missing; None for other objects. Integers stay
    exact: an array of them has 0 in the place of a missing value, while floats have NaN."""
    missing = missing_of(values)
    present = values[~missing]
    if not all(isinstance(value, _NUMBERS) for value in present):
        return None
    if len(present) > 0 and all(map(_is_integer, present)):
        filled = [0 if gone else int(value) for value, gone in zip(values, missing)]
        for kind in (np.int64, np.uint64):
            try:
                return np.array(filled, kind), missing
            except OverflowError:
                pass
    numbers = np.full(len(values), np.nan)
    numbers[~missing] = [float(value) for value in present]
    return numbers, None


def _is_integer(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return isinstance(value, _INTEGERS)


def is_sequence(value: Any) -> bool:
    """Returns True for lists, tuples and arrays, also of other libraries."""
    return isinstance(value, (list, tuple)) or (hasattr(value, "__array__") and not isinstance(value, np.generic))


def are_times(values: np.ndarray) -> bool:
    """Returns True for objects that are all dates, times or periods, or missing."""
    present = values[~missing_of(values)]
    return len(present) > 0 and all(isinstance(value, _TIMES) or type(value).__name__ == "Period" for value in present)


def vectors_of(name: str, values: Sequence[Any]) -> np.ndarray:
    """Returns lists or arrays of numbers of one length as an array [rows, length]. Raises ValueError for others."""
    vectors = []
    for row, value in enumerate(values):
        if not is_sequence(value):
            what = "no vector" if is_missing(value) else repr(value)
            raise ValueError(f"column `{name}` has vectors, but {what} in row {row}; remove the row, or give it a vector, "
                             "for example of zeros")
        vector = np.asarray(value)
        if vector.dtype.kind in "OSU" and vector.size > 0:
            raise ValueError(_other_lists(name, row, vector.ravel()))
        if vector.shape != (vectors or [vector])[0].shape or vector.size == 0:
            raise ValueError(
                f"column `{name}` has {vector.size} numbers in row {row}, but {vectors[0].size if vectors else 'none'} in row "
                "0; give all vectors one length of at least 1, for example by appending zeros, or make a column of each number")
        vectors.append(vector)
    return finite_vectors(name, np.array(vectors).reshape(len(vectors), -1))


def _other_lists(name: str, row: int, elements: np.ndarray) -> str:
    first = next((element for element in elements if not isinstance(element, _NUMBERS)), elements[0])
    if isinstance(first, (str, bytes)):
        return (f"column `{name}` has lists of texts; join each to one text, for example with .str.join(\" \"), so that its "
                "words are tokens, or make a column of each text")
    return f"column `{name}` has a list with {first!r} in row {row}; lists must have numbers, and the same count in each row"


def finite_vectors(name: str, matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix. Raises ValueError if it has NaN or infinity, which vectors can't have."""
    if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
        row, place = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(f"column `{name}` has a vector with {matrix[row, place]} in row {row}, at place {place}; fill such "
                         "values before")
    return matrix


def check_range(what: str, values: np.ndarray) -> bool:
    """Raises ValueError if a finite value is beyond the range of float32, in which models compute. Returns True if
    one is at least 2^53, from where floats do not have every integer."""
    if values.dtype.kind != "f" or values.dtype.itemsize <= 4 or values.size == 0:
        return False
    high = np.fmax.reduce(values, axis=None)
    low = np.fmin.reduce(values, axis=None)
    if not (_FLOAT32_MAX < high < np.inf or -np.inf < low < -_FLOAT32_MAX):
        return bool(high >= 2**53 or low <= -(2**53))
    with np.errstate(invalid="ignore"):
        place = np.argwhere(np.isfinite(values) & (np.abs(values) > _FLOAT32_MAX))[0]
    raise ValueError(f"{what} has the value {values[tuple(place)]:g} in row {place[0]}, but numbers must be within "
                     f"{_FLOAT32_MAX:.1e}; divide it, or take its logarithm")


def check_finite(what: str, values: np.ndarray) -> None:
    """Raises ValueError for infinity, and for what check_range() refuses. NaN is a missing value."""
    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        raise ValueError(f"{what} has the value {values[row]} in row {row}; set it to NaN, or remove the row")
    check_range(what, values)


def factorize(name: str, values: Sequence[Any]) -> tuple[np.ndarray, list[str]]:
    """Returns a code for each value, and the texts of the codes. Missing values have the code -1."""
    places: dict[str, int] = {}
    codes = np.empty(len(values), np.int32)
    for row, value in enumerate(values):
        if isinstance(value, str):  # nearly always
            codes[row] = places.setdefault(value, len(places))
            continue
        if is_sequence(value) or isinstance(value, (dict, set, frozenset)):
            raise ValueError(f"column `{name}` has a {type(value).__name__} in row {row}, where other rows have texts or "
                             "numbers; make columns of its elements")
        codes[row] = -1 if is_missing(value) else places.setdefault(text_of(value), len(places))
    return codes, list(places)


def text_of(value: Any) -> str:
    """Returns the text of a category. A whole number has no decimal point, as in the column of numbers that it becomes."""
    if isinstance(value, Decimal) and value.is_finite():
        return str(int(value) if _is_integer(value) else float(value))
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)


def is_number(text: str) -> bool:
    """Returns True for the text of a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
