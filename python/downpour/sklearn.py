"""Estimators for scikit-learn: DownpourClassifier and DownpourRegressor."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ._labels import as_labels, check_present, encode_known, one_dimensional
from ._model import Model
from ._table import WIDE, as_arrow, one_eval_set

__all__ = ["DownpourClassifier", "DownpourRegressor"]


class _Estimator(BaseEstimator):
    """What the classifier and the regressor share. The arguments are those of `downpour.Model`, with two exceptions:
    `random_state` takes the place of `seed`, and a table with names may have columns of any type."""

    def __init__(
        self,
        preset=None,
        *,
        epochs=None,
        batch_size=None,
        learning_rate=None,
        validation_fraction=0.0,
        random_state=1,
        n_jobs=None,
        settings=None,
    ):
        self.preset = preset
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.settings = settings

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _check(self, X: Any, reset: bool) -> Any:
        """Checks the shape and the names of the columns. A table with names is not converted. With `reset` False, X gets the
        names of the training data by position, if either has no names."""
        X = as_arrow(X)
        is_table = hasattr(X, "columns")
        if is_table:
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=None, ensure_all_finite="allow-nan")
        if reset:
            self._columns = _names_of(X) if is_table else None
        elif is_table and not hasattr(self, "feature_names_in_") and all(isinstance(name, str) for name in _titles(X)):
            return _renamed(X, self._columns)
        elif not is_table and self._columns is not None:
            X = X.toarray() if scipy.sparse.issparse(X) else X
            return {name: X[:, i] for i, name in enumerate(self._columns)}
        return X

    def _fit_model(self, task: str, X: Any, y: np.ndarray, sample_weight: Any, **fit: Any) -> None:
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = int(check_random_state(seed).randint(1, 2**31 - 1))
        self.model_ = Model(
            self.preset,
            task=task,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            validation_fraction=self.validation_fraction,
            seed=int(seed),
            n_jobs=self.n_jobs,
            settings=self.settings,
        )
        self.model_.fit(X, y, sample_weight=sample_weight, **fit)
        self.n_iter_ = max(len(self.model_.history), 1)

    def _weights(self, sample_weight: Any, X: Any) -> np.ndarray | None:
        if sample_weight is None:
            return None
        return _check_sample_weight(sample_weight, np.empty((X.shape[0], 1)), dtype=np.float64, ensure_non_negative=True)


def _titles(X: Any) -> list[Any]:
    return list(X.column_names) if hasattr(X, "column_names") else list(X.columns)  # of PyArrow and pandas


def _names_of(X: Any) -> list[str]:
    """Returns the names that the model gives to the columns of a table."""
    titles = _titles(X)
    return [f"x{i}" for i in range(len(titles))] if titles == list(range(len(titles))) else list(map(str, titles))


def _renamed(X: Any, names: list[str] | None) -> Any:
    """Returns a table with other names; None: as the array that it replaces."""
    X = X.to_pandas() if hasattr(X, "column_names") else X
    if names is None and X.shape[1] > WIDE:
        return X.to_numpy()
    return X.set_axis(range(X.shape[1]) if names is None else names, axis=1)


class DownpourClassifier(ClassifierMixin, _Estimator):
    """A classifier for tables with numbers, categories and texts, and for sparse matrices.

    `class_weight` is a weight for each class, {label: weight}, or "balanced" for weights that give all classes the same
    sum. It multiplies `sample_weight`; a class that a dict lacks has the weight 1. Weights change the probabilities.

    Example:
        >>> classifier = DownpourClassifier(validation_fraction=0.1).fit(frame, labels)
        >>> classifier.predict_proba(frame)  # [rows, classes]
    """

    def __init__(
        self,
        preset=None,
        *,
        epochs=None,
        batch_size=None,
        learning_rate=None,
        validation_fraction=0.0,
        class_weight=None,
        random_state=1,
        n_jobs=None,
        settings=None,
    ):
        super().__init__(preset, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
                         validation_fraction=validation_fraction, random_state=random_state, n_jobs=n_jobs,
                         settings=settings)
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None, eval_set=None, callbacks=()):
        """Trains with X [rows, columns] and labels y [rows]. The other arguments are those of `Model.fit`."""
        X = self._check(X, reset=True)
        y = self._labels(y, X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}, but a classifier needs two")
        eval_set = one_eval_set(eval_set)
        if eval_set is not None:
            known = encode_known(np.asarray(eval_set[1]), self.classes_, len(eval_set[1]))
            eval_set = (self._check(eval_set[0], reset=False), known)
        task = "binary" if len(self.classes_) == 2 else "classes"
        weights = self._weights(sample_weight, X)
        if self.class_weight is not None:
            of_class = compute_sample_weight(self.class_weight, y)
            weights = of_class if weights is None else weights * of_class
        self._fit_model(task, X, codes.astype(np.int32), weights, eval_set=eval_set, callbacks=callbacks)
        return self

    def _labels(self, y: Any, X: Any) -> np.ndarray:
        from sklearn.utils.validation import check_consistent_length, column_or_1d

        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        kind = getattr(y, "dtype", None)
        if kind == object or (kind is not None and not isinstance(kind, np.dtype)):  # such as integers, or Int64 of pandas
            y = as_labels(y)
            check_present(one_dimensional(y), "y")
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return y

    def predict_proba(self, X):
        """Returns the probability of each class, [rows, classes]. Not for the loss "hinge"."""
        check_is_fitted(self)
        probabilities = self.model_.predict_proba(self._check(X, reset=False)).astype(np.float64)
        return probabilities / probabilities.sum(axis=1, keepdims=True)  # each sum is 1 with all digits

    def predict_log_proba(self, X):
        """Returns the logarithm of the probability of each class, [rows, classes]. Not for the loss "hinge"."""
        probabilities = self.predict_proba(X)
        return np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))

    def predict(self, X):
        """Returns the most likely class of each row."""
        check_is_fitted(self)
        if self.model_.description["outputs"][0]["prediction"] == "margin":
            return self.classes_[(self.decision_function(X) >= 0).astype(int)]
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def decision_function(self, X):
        """Returns the values before the function of the output, whose signs are the classes: margins of the loss "hinge"
        or logits, [rows], and for several classes [rows, classes].
        """
        check_is_fitted(self)
        raw = self.model_.predict_raw(self._check(X, reset=False), activation=False).astype(np.float64)
        return raw[:, 0] if raw.shape[1] == 1 else raw


class DownpourRegressor(RegressorMixin, _Estimator):
    """A regressor for tables with numbers, categories and texts, and for sparse matrices."""

    def fit(self, X, y, sample_weight=None, eval_set=None, callbacks=()):
        """Trains with X [rows, columns] and numbers y [rows]. The other arguments are those of `Model.fit`."""
        from sklearn.utils.validation import _check_y, check_consistent_length

        X = self._check(X, reset=True)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = _check_y(y, y_numeric=True, estimator=self)
        check_consistent_length(X, y)
        eval_set = one_eval_set(eval_set)
        if eval_set is not None:
            eval_set = (self._check(eval_set[0], reset=False), eval_set[1])
        self._fit_model("regression", X, y, self._weights(sample_weight, X), eval_set=eval_set, callbacks=callbacks)
        return self

    def predict(self, X):
        """Returns the predicted value of each row."""
        check_is_fitted(self)
        return self.model_.predict(self._check(X, reset=False)).astype(np.float64)
