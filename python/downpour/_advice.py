"""Advice on the data and on a trained model: columns that nearly vanish, and models that are no better than simpler ones."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import numpy as np

_MOST_WORK = 1e9  # multiplications for a linear model, less than a second
_MOST_ROWS = 20_000
_FEW_ROWS = 5  # for each column: of fewer, a network learns little
_NOTHING = "the best evaluation has the {}: the model has learned nothing that holds for other records"
_PENALTIES = np.logspace(-3, 5, 17)


def uneven_columns(matrix: np.ndarray) -> str | None:
    """Returns a warning if the columns of an array, which are scaled together, have so different sizes that most of them
    nearly vanish; None for arrays that are mostly 0, such as counts of words."""
    sample = matrix[:: max(1, len(matrix) // 10_000)].astype(np.float64)
    spread = sample.std(axis=0) if len(sample) > 0 else np.zeros(0)
    varying = np.flatnonzero(spread > 0)
    if len(varying) == 0 or np.mean(sample == 0) > 0.5:
        return None
    ranked = varying[spread[varying].argsort()]
    middle, largest = ranked[len(ranked) // 2], ranked[-1]
    if spread[middle] > 0.1 * sample.std():
        return None
    return (f"X is scaled as a whole, because it has {matrix.shape[1]} columns, but column {largest} has the standard deviation "
            f"{spread[largest]:.3g} and column {middle} {spread[middle]:.3g}, so most columns count little; scale them before, "
            "for example with sklearn.preprocessing.StandardScaler, or give feature_names")


def worse_than_simple(
    description: Mapping[str, Any], y: np.ndarray, numbers: Callable[[], list[np.ndarray]]
) -> str | None:
    """Returns a warning if the best evaluation is no better than that of a constant, or if a linear model of the columns
    that `numbers` gives is better in leave-one-out. `y` are the labels of the training records: numbers, or places of
    classes."""
    output, history = description["outputs"][0], description.get("history", [])
    losses = [line["eval"] for line in history if line.get("eval")]
    if output["loss"] in ("logistic", "softmax_cross_entropy"):
        shares = np.unique(y, return_counts=True)[1] / len(y)
        constant = float(-(shares * np.log(shares)).sum())
        best = min((each["logloss"] for each in losses if "logloss" in each), default=None)
        return None if best is None or best < constant else _NOTHING.format(
            f"logloss {best:.4g}, no better than {constant:.4g} of the shares of the classes in the training records")
    if output["loss"] != "squared" or len(y) < 30:
        return None
    best = max((each["r2"] for each in losses if "r2" in each), default=None)  # 1 minus the share that is not explained
    linear = _linear(numbers, y.astype(np.float64), best is None) if len(y) <= _MOST_ROWS else -np.inf
    known = max(best or 0, 0)
    if 1 - linear < 0.7 * (1 - known) and linear > known + 0.01:
        said = f"{len(y)} rows are few for the columns" if best is None else f"the best evaluation has the R² {best:.3g}"
        return (f"{said}, and a linear model of the numbers has the R² {linear:.3g} in leave-one-out; compare with RidgeCV "
                "of scikit-learn")
    return _NOTHING.format(f"R² {best:.3g}, no better than the mean of y") if best is not None and best <= 0 else None


def _linear(numbers: Callable[[], list[np.ndarray]], y: np.ndarray, if_few: bool) -> float:
    """Returns the R² of a linear model in leave-one-out; minus infinity if it would take long, or if there are many rows and
    `if_few` is set."""
    matrices = numbers()
    columns = sum(matrix.shape[1] for matrix in matrices)
    work = len(y) * columns * min(len(y), columns)
    if work == 0 or work > _MOST_WORK or (if_few and len(y) >= _FEW_ROWS * columns):
        return -np.inf
    return 1 - _leave_one_out(np.hstack(matrices), y) ** 2 / max(float(np.var(y)), 1e-300)


def _leave_one_out(X: np.ndarray, y: np.ndarray) -> float:
    """Returns the RMSE of a ridge regression in leave-one-out, for the best of some penalties (Golub, Heath and Wahba,
    "Generalized cross-validation", 1979)."""
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    centered = y - y.mean()
    along = U.T @ centered
    errors = []
    for penalty in _PENALTIES:
        shrunk = s**2 / (s**2 + penalty)
        leverage = (U**2) @ shrunk + 1 / len(y)
        left_out = (centered - U @ (shrunk * along)) / np.maximum(1 - leverage, 1e-6)
        errors.append(np.sqrt(np.mean(left_out**2)))
    return float(min(errors))
