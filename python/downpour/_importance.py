"""Permutation importance: how much worse predictions become when the values of one column are shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from ._values import as_array

if TYPE_CHECKING:
    from ._model import Model


def permutation_importance(
    model: Model, X: Any, labels: np.ndarray, names: list[str] | None, repeats: int, seed: int
) -> dict[str, float]:
    """See Model.importance(). `labels` are numbers of classes or values, `names` those of the columns of an array."""
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}, but must be at least 1")
    names, shuffled = _columns(X, names)
    base = _loss(model, X, labels)
    random = np.random.default_rng(seed)
    rises = {}
    for name in names:
        losses = [_loss(model, shuffled(name, random.permutation(len(labels))), labels) for _ in range(repeats)]
        rises[str(name)] = float(np.mean(losses) - base)
    return dict(sorted(rises.items(), key=lambda item: -item[1]))


def _columns(X: Any, names: list[str] | None) -> tuple[list[Any], Any]:
    """Returns the names of the columns, and a function that returns X with the rows of one column in another order."""
    module = type(X).__module__.partition(".")[0]
    if module == "pandas":
        return list(X.columns), lambda name, order: _assigned(X, name, order)
    if module == "pyarrow":
        place = X.schema.names.index
        return X.schema.names, lambda name, order: X.set_column(place(name), name, X.column(name).take(order))
    if isinstance(X, Mapping):
        return list(X), lambda name, order: {**X, name: as_array(X[name])[order]}
    if module == "scipy":
        raise TypeError("a sparse matrix has no columns to shuffle; give a frame or an array")
    array = as_array(X)
    if array.dtype.names is not None:
        X = {name: array[name] for name in array.dtype.names}
        return list(X), lambda name, order: {**X, name: X[name][order]}
    names = names or [f"x{i}" for i in range(array.shape[1])]
    places = {name: i for i, name in enumerate(names)}

    def shuffled(name: str, order: np.ndarray) -> np.ndarray:
        changed, column = array.copy(), places[name]
        changed[:, column] = changed[order, column]
        return changed

    return names, shuffled


def _assigned(frame: Any, name: Any, order: np.ndarray) -> Any:
    changed = frame.copy(deep=False)
    changed[name] = frame[name].take(order).set_axis(frame.index)
    return changed


def _loss(model: Model, X: Any, labels: np.ndarray) -> float:
    """Mean logloss or hinge loss of the classes, or the root of the mean squared error."""
    if model.classes is None:
        return float(np.sqrt(np.mean((model.predict(X) - labels) ** 2)))
    if model.description["outputs"][0]["prediction"] == "margin":
        return float(np.maximum(0, 1 - (2 * labels - 1) * model.predict_raw(X)[:, 0]).mean())
    probabilities = model.predict_proba(X)
    return float(-np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-15)).mean())
