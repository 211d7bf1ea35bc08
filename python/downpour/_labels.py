"""Labels and sample weights: their forms, and checks of their values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ._values import as_array, is_missing, is_number, is_sequence, numbers_of, text_of

#: More integers, and more than FEW floats, are no classes.
CLASSES_MAX = 1000
FEW = 10

# As `downpour train FILE` judges the last word of a target's name: its integers are numbers, or classes also if there are
# more than FEW.
_NUMBER_WORDS = {"rating", "ratings", "stars", "score", "count", "price", "sales", "revenue"}
_CLASS_WORDS = {"label", "labels", "target", "class", "y", "type", "kind", "digit", "category"}

_INTEGER = re.compile(r"(-?(?:0|[1-9]\d{0,17}))(?:\.0+)?")


def are_two_labels(y: np.ndarray) -> bool:
    """Returns True for numbers that are all equal, and for two integers such as 1 and 2, except are_signs()."""
    if len(y) < 2:
        return False
    low, high = y.min(), y.max()
    if low == high:
        return True
    whole = float(low).is_integer() and float(high).is_integer()
    return whole and not are_signs(y) and bool(((y == low) | (y == high)).all())


def are_signs(y: np.ndarray) -> bool:
    """Returns True for 0 and 1, or -1 and 1, which are classes as they are."""
    low, high = (y.min(), y.max()) if len(y) > 0 else (0, 0)
    return (low, high) in ((0, 1), (-1, 1)) and bool(((y == low) | (y == high)).all())


def _whole_numbers(y: np.ndarray, most: int) -> np.ndarray | None:
    """Returns the different values of labels that are whole numbers; None if there are more than `most`, or others."""
    if y.dtype.kind == "f" and not (np.isfinite(y) & (y == np.floor(y))).all():
        return None
    if len(np.unique(y[:10_000])) > most:
        return None
    low, high = int(y.min()), int(y.max())
    values = np.flatnonzero(np.bincount((y - low).astype(np.int64))) + low if high - low < 1e6 else np.unique(y)
    return values if len(values) <= most else None


def are_classes(y: np.ndarray, name: str | None = None) -> bool:
    """Returns True for more than two whole numbers that are classes: from 0, most of them, and each ten times on average.
    There may be CLASSES_MAX integers, or FEW floats. The `name` of the target can say that they are numbers."""
    values = _whole_numbers(y, FEW if y.dtype.kind == "f" else CLASSES_MAX) if len(y) > 0 else None
    if values is None or len(values) < 3 or 10 * len(values) > len(y):
        return False
    if name is not None:
        words = re.findall(r"[A-Z]*[a-z]+|[A-Z]+", name)
        word = words[-1].lower() if words and name.endswith(words[-1]) else ""
        if word in _NUMBER_WORDS or (len(values) > FEW and word not in _CLASS_WORDS):
            return False
    return bool(values[0] >= 0 and values[-1] < 2 * len(values))


def guess_of(y: np.ndarray, classes: bool) -> str | None:
    """Returns a warning for numbers that were taken as classes, or as the values of a regression, and may be the other."""
    values = _whole_numbers(y, CLASSES_MAX) if len(y) >= 10 * FEW else None
    if values is None or len(values) < 3 or classes == (len(values) <= FEW):
        return None
    taken, task, other = ("classes", "classes", "regression") if classes else ("the numbers of a regression", "regression",
                                                                               "classes")
    are = "numbers, such as counts" if classes else "classes"
    return (f"y has {len(values)} different integers from {values[0]} to {values[-1]}, which are taken as {taken}; give "
            f"task=\"{other}\" if they are {are}, or task=\"{task}\" to hide this warning")


def classes_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the different labels in their order, and for each record the place of its label. Raises ValueError for
    labels that can't be classes."""
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise ValueError(f"y has labels of the types {' and '.join(kinds)}; convert them to one type") from None
    if classes.dtype.kind in "OU" and len(classes) > max(20, len(y) // 2) and all(is_number(str(each)) for each in classes):
        raise ValueError(f"y has the numbers {str(classes[0])!r}, {str(classes[1])!r} … as texts; convert them, for example "
                         "with pandas.to_numeric")
    return classes, codes


def texts_of(classes: np.ndarray) -> list[str] | None:
    """Returns the texts by which the programs name classes; None if they are named 0, 1, 2, …: those that are these
    numbers, more than CLASSES_MAX, and those that can't be told apart as texts."""
    labels = classes.tolist()
    if len(labels) > CLASSES_MAX or (classes.dtype.kind != "b" and labels == list(range(len(labels)))):
        return None
    texts = [text_of(label) for label in labels]
    return texts if len(set(texts)) == len(texts) and all(texts) else None


def as_labels(y: Any) -> np.ndarray:
    """Returns labels as an array. Numbers among objects become integers, if all are, otherwise floats. Joins the labels,
    or the arrays of labels, of an iterator."""
    if y is None:
        raise ValueError("y is None; give the labels, or the name of the column of X that has them")
    if hasattr(y, "__next__"):
        parts = list(y)
        y = np.concatenate([np.asarray(part) for part in parts]) if parts and is_sequence(parts[0]) else parts
    labels = as_array(y)
    if labels.dtype.kind == "O" and labels.ndim == 1 and len(labels) > 0 and not _are_booleans(labels):
        numbers, missing = numbers_of(labels) or (labels, None)
        labels = labels if missing is not None and missing.any() else numbers
    if labels.dtype.kind in "mMc":
        what = "complex numbers" if labels.dtype.kind == "c" else "times"
        raise ValueError(f"y has {what} ({labels.dtype}); convert them to numbers or texts, for example durations with "
                         ".dt.total_seconds()")
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


def check_two(classes: np.ndarray) -> None:
    """Raises ValueError if there are more labels than task="binary" can have."""
    if len(classes) > 2:
        shown = ", ".join(map(repr, classes[:3].tolist()))
        raise ValueError(f'y has {len(classes)} labels, such as {shown}, but task="binary" is for two; give task="classes"')


def as_numbers(y: np.ndarray) -> np.ndarray:
    """Returns the labels of a regression as numbers. Raises ValueError for others."""
    try:
        return y if y.dtype.kind in "iuf" else y.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError('y has labels that are not numbers, which task="regression" needs; convert them, or give '
                         'task="classes"') from None


def as_weights(sample_weight: Any, unit: float) -> np.ndarray:
    """Returns weights as floats, divided by `unit`. Raises ValueError for one that is negative or not finite."""
    weights = np.asarray(sample_weight, np.float64)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"the weight of row {row} is {weights[row]}; weights must be numbers of at least 0")
    return (weights / unit).astype(np.float32)


def mean_weight(sample_weight: Any) -> float:
    """Returns the mean of the weights that are numbers above 0. Raises ValueError if all are 0, or if some are no
    numbers."""
    try:
        weights = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight has values that are no numbers; give one number for each record") from None
    if weights.ndim != 1:
        raise ValueError(f"sample_weight has the shape {list(weights.shape)}; give one number for each record")
    used = weights[(weights > 0) & np.isfinite(weights)]
    if len(used) == 0 and not (weights == 0).all():
        return 1.0  # as_weights() says what is wrong
    if len(used) == 0:
        raise ValueError("all weights are 0: there is nothing to learn")
    largest = used.max()  # the sum of large weights may be infinite
    return float(largest * (used / largest).mean())


def integers_of(texts: list[str]) -> np.ndarray:
    """Returns the integers of texts such as "1" and "2.0", or the texts if one is another, or if two have the same integer."""
    matches = [_INTEGER.fullmatch(str(text)) for text in texts]
    numbers = {str(text): int(match[1]) for text, match in zip(texts, matches) if match is not None}
    if None in matches or len(set(numbers.values())) < len(numbers):
        return np.array(texts)
    return np.array([numbers[str(text)] for text in texts])


def encode_known(y: np.ndarray, classes: np.ndarray | None, rows: int, name: str = "eval_set") -> np.ndarray:
    """Returns the places of labels among `classes`; None: of numbers, which stay as they are. Raises ValueError for a label
    that is none of them. `name` is that of the argument."""
    y = one_dimensional(y)
    if y.ndim != 1 or len(y) != rows:
        raise ValueError(f"{name} has labels of the shape {list(y.shape)}, but there are {rows} rows")
    check_present(y, name)
    if classes is None:
        return y
    are_texts = classes.dtype.kind == "U" or (classes.dtype.kind == "O" and all(isinstance(each, str) for each in classes))
    if are_texts and y.dtype.kind in "biuf":
        y = np.array([text_of(label) for label in y.tolist()], str)
    elif classes.dtype.kind == "i" and y.dtype.kind in "OU":
        known = {str(label): label for label in classes.tolist()}
        unique, places = np.unique(y.astype(str), return_inverse=True)
        texts = unique.tolist()
        integers = [known.get(match[1] if (match := _INTEGER.fullmatch(text)) else text) for text in texts]
        if None in integers:
            raise ValueError(f"{name} has the label {texts[integers.index(None)]!r}, which is none of the classes")
        y = np.array(integers)[places]
    elif classes.tolist() == [0, 1] and y.dtype.kind in "if" and not (y == 0).any():
        y = np.where(y == -1, 0, y)  # a binary target reads -1 as 0
    order = np.argsort(classes)  # a model of `downpour train` has them in another order
    places = np.minimum(np.searchsorted(classes, y, sorter=order), len(classes) - 1)
    codes = order[places]
    unknown = classes[codes] != y
    if unknown.any():
        raise ValueError(f"{name} has the label {y[unknown].tolist()[0]!r}, which is none of the classes")
    return codes.astype(np.int32)
