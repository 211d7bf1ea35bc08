"""Labels and sample weights: their forms, and checks of their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._values import is_missing, numbers_of


def are_two_labels(y: np.ndarray) -> bool:
    """Returns True for numbers that are all equal, and for two integers such as 1 and 2. Labels of 0 and 1, or -1 and 1,
    are classes as they are, so the result is False for them."""
    if len(y) < 2:
        return False
    low, high = y.min(), y.max()
    if low == high:
        return True
    known = (low, high) in ((0, 1), (-1, 1))
    return not known and float(low).is_integer() and float(high).is_integer() and bool(((y == low) | (y == high)).all())


def as_labels(y: Any) -> np.ndarray:
    """Returns labels as an array. Numbers among objects become integers, if all are, otherwise floats."""
    labels = np.asarray(y)
    if labels.dtype.kind == "O" and labels.ndim == 1 and len(labels) > 0 and not _are_booleans(labels):
        numbers, missing = numbers_of(labels) or (labels, None)
        labels = labels if missing is not None and missing.any() else numbers
    return labels


def one_dimensional(y: np.ndarray) -> np.ndarray:
    """Returns the column of an array [rows, 1], and any other array unchanged."""
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def check_present(y: np.ndarray, name: str) -> None:
    """Raises ValueError if a label is missing. `name` is that of the argument."""
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError(
            f"{name}: the label of row {int(np.isnan(y).argmax())} is NaN; remove the rows without a label")
    if y.dtype.kind == "O" and any(map(is_missing, y.ravel())):
        raise ValueError(f"{name} has missing labels; remove the rows without a label")


def _are_booleans(labels: np.ndarray) -> bool:
    return all(isinstance(label, (bool, np.bool_)) for label in labels)


def as_weights(sample_weight: Any) -> np.ndarray:
    """Returns weights as floats. Raises ValueError for one that is negative or not finite."""
    weights = np.asarray(sample_weight, np.float32)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"the weight of row {row} is {weights[row]}; weights must be numbers of at least 0")
    return weights
