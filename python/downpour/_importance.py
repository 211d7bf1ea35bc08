"""Permutation importance: how much worse predictions become when the values of one column are shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from ._table import loaded

if TYPE_CHECKING:
    from ._model import Model


def permutation_importance(model: Model, X: Any, y: Any, repeats: int, seed: int) -> dict[str, float]:
    """See Model.importance()."""
    X = loaded(X)
    names, shuffled = _columns(X)
    labels = np.asarray(y)
    base = _loss(model, X, labels)
    random = np.random.default_rng(seed)
    rises = {}
    for name in names:
        losses = [_loss(model, shuffled(name, random.permutation(len(labels))), labels) for _ in range(repeats)]
        rises[str(name)] = float(np.mean(losses) - base)
    return dict(sorted(rises.items(), key=lambda item: -item[1]))


def _columns(X: Any) -> tuple[list[Any], Any]:
    """Returns the names of the columns, and a function that returns X with the rows of one column in another order."""
    module = type(X).__module__.partition(".")[0]
    if module == "pandas":
        return list(X.columns), lambda name, order: X.assign(**{name: X[name].take(order).set_axis(X.index)})
    if module == "pyarrow":
        place = X.schema.names.index
        return X.schema.names, lambda name, order: X.set_column(place(name), name, X.column(name).take(order))
    if isinstance(X, Mapping):
        return list(X), lambda name, order: {**X, name: np.asarray(X[name])[order]}
    if module == "scipy":
        raise TypeError("a sparse matrix has no columns to shuffle; give a frame or an array")
    array = np.asarray(X)

    def shuffled(name: str, order: np.ndarray) -> np.ndarray:
        changed, column = array.copy(), int(name[1:])
        changed[:, column] = changed[order, column]
        return changed

    return [f"x{i}" for i in range(array.shape[1])], shuffled


def _loss(model: Model, X: Any, labels: np.ndarray) -> float:
    """Mean logloss of the classes, or the root of the mean squared error."""
    if model.classes is None:
        return float(np.sqrt(np.mean((model.predict(X) - labels) ** 2)))
    probabilities = model.predict_proba(X)
    places = np.searchsorted(model.classes, labels)
    return float(-np.log(np.maximum(probabilities[np.arange(len(labels)), places], 1e-15)).mean())
