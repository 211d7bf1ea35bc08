"""Model: training and predictions on data in memory."""

from __future__ import annotations

import copy
import ctypes
import json
import os
import pathlib
import re
import tempfile
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from . import _library as c
from ._advice import uneven_columns, worse_than_simple
from ._importance import permutation_importance
from ._labels import (
    are_classes, are_signs, are_two_labels, as_labels, as_numbers, as_weights, check_present, check_two, classes_of,
    encode_known, guess_of, integers_of, mean_weight, one_dimensional, texts_of)
from ._progress import print_epochs
from ._saved import check_storable, read_extras, write_extras
from ._table import Table, rows_of, split, table_of, titles_of, with_titles
from ._training import (Callback, Trained, job_text, set_length, settings_of_weights, target_texts, threads_of, train,
                        with_constant_rules)
from ._values import check_range, text_of, warn

__all__ = ["Model"]

_TASK_LOSS = {"binary": "logistic", "classes": "softmax_cross_entropy", "regression": "squared"}
_ONE_VALUE = ("factorization_machine", "matrix_factorization")  # presets that can't have several classes
_LOSS_KEYS = ("model.loss", "model.layers", "model.outputs")


def _add_target(table: Table, name: str, labels: np.ndarray, texts: list[str] | None) -> None:
    """Adds the column of a target. `texts`: those of the classes whose places the labels are."""
    if texts:
        table.add_dictionary(name, labels, texts)
    else:
        table.add_numbers(name, labels)


class Model:
    """A model for tables with numbers, categories and texts, or for sparse matrices.

    Without arguments, the model is chosen for the data, as ``downpour train FILE`` does it. Training runs in this
    process and writes nothing to the disk. The same data and seed give the same bits, for any `n_jobs`; with a `job`,
    if it sets train.mode = "sync" and train.replicas.

    Args:
        preset: "wide_deep", "deepfm", "dcn_v2", "dlrm", "factorization_machine", "matrix_factorization",
            "logistic_regression", "linear_regression"; docs/models.md says which is for what. None: chosen for the data.
        task: "binary", "classes" or "regression". None: decided by `y`.
        epochs: passes over the data. None: 5 to 20, the fewer the more rows, in which the learning rate falls to 0; with
            data for validation at most 40, and training usually stops before.
        batch_size: records of a step.
        learning_rate: of the first optimizer; those of the others change by the same factor. None: the preset's.
        validation_fraction: share of the records that is held out to find the best epoch and to stop early; 0, or less than
            10 records: none.
        seed: of weights, shuffling and dropout; None: that of the job, or 1.
        n_jobs: threads; None: 1; -1: as many as this process may use.
        job: text of a job file, or the path of one that ends in .toml. It then decides everything that the other
            arguments leave open, and its data source is ignored if `fit` gets data.
        settings: keys of the job file and their values, for example {"train.batch_size": 1024}. They take precedence.

    Attributes:
        classes: labels of the classes in the order of `predict_proba`; None for a regression.
        history: for each epoch of the last training a dict with "epoch", "records", "seconds", "train" and "eval"
            (metrics by name). With the setting "eval.slices" also "slices": by field a list of dicts with "value"
            (None for all other values), "weight" and the metrics of these records.
        description: dict with "job", "outputs", "columns", "reason" and "warnings".
    """

    _weight_unit: float | None = None  # the weight that counts as 1

    def __init__(
        self,
        preset: str | None = None,
        *,
        task: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.0,
        seed: int | None = None,
        n_jobs: int | None = None,
        job: str | os.PathLike | None = None,
        settings: Mapping[str, Any] | None = None,
    ):
        if task is not None and task not in _TASK_LOSS:
            raise ValueError(f"task is {task!r}, but must be one of {', '.join(map(repr, _TASK_LOSS))}")
        self.preset, self.task, self.epochs, self.batch_size = preset, task, epochs, batch_size
        self.learning_rate, self.validation_fraction, self.seed = learning_rate, validation_fraction, seed
        self.n_jobs, self.job, self.settings = n_jobs, job, dict(settings or {})
        self.classes: np.ndarray | None = None
        self.description: dict[str, Any] = {}
        self._trained: Trained | None = None
        self._names: list[str] | None = None  # columns of an array without names
        self._titles: list[str] | None = None  # columns of the table that the model was trained on

    # ---- training

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        eval_set: tuple[Any, Any] | list[tuple[Any, Any]] | None = None,
        callbacks: Iterable[Callback] = (),
        feature_names: Sequence[str] | None = None,
        target: str = "label",
        classes: Sequence[Any] | None = None,
        verbose: bool = False,
    ) -> Model:
        """Trains the model and returns it.

        Args:
            X: NumPy array [rows, columns], SciPy sparse matrix, pandas DataFrame, PyArrow table or a frame with its
                interface (polars), mapping of names to arrays, path of a Parquet or Feather file, or an iterator over
                parts of one of these. NaN and None are missing values. Memory is shared, not copied, where its layout
                allows.
            y: array [rows]: numbers, or labels of any type; or the name of the column of X that is predicted.
            sample_weight: array [rows] of weights of at least 0, not for a job with layers. Only their ratios matter: they
                are divided by the mean of those above 0. Later calls of `partial_fit` divide by the same number.
            eval_set: (X, y), or a list with this pair, to evaluate after each epoch. Training stops when it no longer
                improves, and the best epoch is kept.
            callbacks: called about twenty times a second with a Progress, by this thread. Training ends early, with
                what it has learned so far, if one returns True.
            feature_names: names of the columns of an array.
            target: with a `job`, the name that the column of `y` has in it.
            classes: all labels, if `y` may lack one.
            verbose: prints a line for each epoch.

        Raises:
            DownpourError: the data or an argument can't be used; `where` and `hint` say what to change.
        """
        target = self._target_named(y, target)
        title = y if isinstance(y, str) else getattr(y, "name", None)  # of a series
        X, y, eval_set = split(X, y, eval_set)
        known = None if classes is None else np.unique(np.asarray(classes))
        if known is not None and (self.task == "regression" or len(known) < 2):
            raise ValueError(f"classes has {len(known)} labels, but there must be two or more" if len(known) < 2 else
                             'classes is given, but task="regression" predicts numbers: leave one of them out')
        names = list(feature_names) if feature_names is not None else None
        table = table_of(X, names)
        given = set(table.names)
        if not given:
            raise ValueError("X has no column that a model can use; times, for example, need to be converted to numbers")
        if self.job is None and table.wide is not None and (advice := uneven_columns(table.wide)) is not None:
            warn(advice)
        settings = self._settings()
        y = as_labels(y)
        texts = None
        if self.job is not None:
            texts = target_texts(self.job, target, lambda: list(map(text_of, np.unique(y).tolist())))
        if texts:
            known = integers_of(texts) if y.dtype.kind in "iu" else np.array(texts)
        labels, found = self._encode(y, table.rows, known, None if title is None else str(title))
        if self.job is None:
            target = settings["model.target"] = self._free_name("label", table)
            self._set_task(labels, found, settings)
        elif target in table.names:
            raise ValueError(f"X has the column {target!r}, which is the target; remove it from X")
        if self.job is None and found is not None and (texts := texts_of(found)):
            settings[f"data.fields.{target}.classes"] = texts
        _add_target(table, target, labels, texts)
        weights, self._weight_unit = self._free_name("sample_weight", table), None
        if sample_weight is not None:
            self._weight_unit = mean_weight(sample_weight)
            table.add_numbers(weights, as_weights(sample_weight, self._weight_unit))
            settings.update({"model.weights": weights} if self.job is None else settings_of_weights(self.job, weights))
        alive: list[Any] = [table]
        if eval_set is not None:
            titles = titles_of(X) if names is None else None
            held_out = table_of(with_titles(eval_set[0], titles), names, table.columns_of_texts())
            _add_target(held_out, target, encode_known(as_labels(eval_set[1]), found, held_out.rows), texts)
            if sample_weight is not None:
                held_out.add_numbers(weights, np.ones(held_out.rows, np.float32))
            alive.append(held_out)
            settings["eval.source"] = held_out.source
            settings["eval.holdout"] = 0
        elif self.job is None or self.validation_fraction > 0:
            settings["eval.holdout"] = self._holdout(table.rows)
        settings.update(self.settings)
        if self.job is None and settings["eval.holdout"] == 0 and "eval.source" not in settings:
            set_length(table, len(given), settings)
        called = [callbacks] if callable(callbacks) else list(callbacks)
        self._train(table, settings, called + ([print_epochs] if verbose else []))
        self._names, self._titles = names, titles_of(X)
        self.classes = found if found is not None else self._classes_of_output()
        if found is None and self.classes is not None and len(self.classes) == 2 and (y == -1).any():
            self.classes = np.array([-1, 1])
        self._check_ids(table)
        if self.job is None and (left_out := sorted(given - {column["name"] for column in self.description["columns"]})):
            warn(f"left out of X: {', '.join(f'`{name}`' for name in left_out[:10])}{' …' if len(left_out) > 10 else ''}, as ids, "
                 'moments or columns without values; description["reason"] has more, and a job can declare their fields')
        if self.job is None and sample_weight is None and not self.description["stopped"]:
            used = self._columns_of("number")
            if (advice := worse_than_simple(self.description, labels, lambda: table.numbers(used))) is not None:
                warn(advice)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        classes: Sequence[Any] | None = None,
        sample_weight: Any = None,
        epochs: int = 1,
        callbacks: Iterable[Callback] = (),
        feature_names: Sequence[str] | None = None,
        target: str = "label",
    ) -> Model:
        """Trains the model further with more records, and returns it. The learning rate is constant.

        The first call of a model that is not trained chooses the model for its records: means, quantiles and the
        vocabulary of texts come from them, so they should be typical.

        Args:
            X, y, sample_weight, callbacks: as those of `fit`. The columns must be those of the first call. A column of
                weights that the job names counts as it is, and so does `sample_weight` in its place.
            feature_names, target: as those of `fit`, for the first call.
            classes: all labels, if the records of the first call may lack one.
            epochs: passes over these records.
        """
        constant = {"optimizer.schedule": {"type": "constant"}}
        if self._trained is None:
            first = copy.copy(self)
            first.epochs, first.validation_fraction, first.settings = epochs, 0.0, {**constant, **self.settings}
            first.fit(X, y, sample_weight=sample_weight, callbacks=callbacks, feature_names=feature_names,
                      target=target, classes=classes)
            self.classes, self._names, self._trained = first.classes, first._names, first._trained
            self._titles, self._weight_unit = first._titles, first._weight_unit
            self.description = first.description
            return self
        X, y, _ = split(X, y, None)
        table = self._table_of(X)
        output = self.description["outputs"][0]
        codes = encode_known(as_labels(y), self.classes, table.rows, "y")
        texts = output["classes"] or target_texts(
            self.description["job"], output["target"], lambda: list(map(text_of, self.classes.tolist())))
        _add_target(table, output["target"], codes, texts)
        if output["weights"] and self._weight_unit is None:  # a column of the job
            if sample_weight is not None:
                if output["weights"] in table.names:
                    raise ValueError(f"X has the column {output['weights']!r}, the weights of the job, so leave out sample_weight")
                table.add_numbers(output["weights"], as_weights(sample_weight, 1.0))
            elif output["weights"] not in table.names:
                raise ValueError(f"X has no column {output['weights']!r}, the weights of the job; add it, or give sample_weight")
        elif output["weights"]:
            sample_weight = np.ones(table.rows) if sample_weight is None else sample_weight
            table.add_numbers(output["weights"], as_weights(sample_weight, self._weight_unit))
        elif sample_weight is not None:
            raise ValueError("the first call had no sample_weight, so this one can't have any")
        settings = {"eval.source": [], "train.epochs": epochs, "eval.holdout": 0, **constant, **self.settings}
        with tempfile.TemporaryDirectory(prefix="downpour-") as folder:
            c.check(c.library().dp_model_save(self._model().pointer, f"{folder}/run".encode()))
            settings["train.warm_start"] = {"run": f"{folder}/run"}
            called = [callbacks] if callable(callbacks) else list(callbacks)
            self._train(table, settings, called, with_constant_rules(self.description["job"]))
        return self

    def _holdout(self, rows: int) -> float:
        """Returns the share of the records that evaluations read; 0, with a warning, if they would be too few to decide."""
        least = 10
        if self.job is not None or not 0 < self.validation_fraction * rows < least:
            return self.validation_fraction
        warn(f"validation_fraction={self.validation_fraction} of {rows} records is fewer than {least}, which can't decide "
             f"anything, so nothing is held out; give 0 to hide this warning, or at least {min(least / rows, 0.5):.2g}")
        return 0

    def _target_named(self, y: Any, target: str) -> str:
        """With a job, the column that `y` names keeps its name, unless the caller gives another."""
        return y if isinstance(y, str) and self.job is not None and target == "label" else target

    def _settings(self) -> dict[str, Any]:
        given = {
            "model.preset": self.preset,
            "train.epochs": self.epochs,
            "train.batch_size": self.batch_size,
            "optimizer.learning_rate": self.learning_rate,
            "seed": self.seed,
        }
        settings = {key: value for key, value in given.items() if value is not None}
        for key, value in self.settings.items():
            if value is None:
                raise ValueError(f"the setting {key!r} is None; leave it out, or give a value")
        if self.job is None:  # the steps of one replica have a fixed order, so the result is the same for any n_jobs
            settings["train.mode"] = "sync"
            settings["train.replicas"] = 1
        return settings

    def _set_task(self, labels: np.ndarray, classes: np.ndarray | None, settings: dict[str, Any]) -> None:
        task = self.task
        if task is None and classes is not None:
            task = "binary" if len(classes) == 2 else "classes"
        elif task is None and self.preset != "linear_regression" and not are_signs(labels):
            task = "regression"
        if task == "classes" and classes is not None and len(classes) == 2:
            task = "binary"  # the same probabilities, from one output
        if self.preset == "linear_regression" and task in ("binary", "classes"):
            raise ValueError('linear_regression predicts numbers, but the labels are classes: use "logistic_regression"')
        if self.preset == "softmax_mlp":
            if classes is None:
                raise ValueError('softmax_mlp predicts classes, but the labels are numbers: use "wide_deep"')
            settings.setdefault("model.units", [128, len(classes)])
            return
        if task is not None:
            settings["model.loss"] = _TASK_LOSS[task]
        if task == "classes" and classes is not None:
            settings["model.classes"] = len(classes)

    def _encode(
        self, y: np.ndarray, rows: int, known: np.ndarray | None, name: str | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the labels as numbers, and the classes that they stand for. `name` is that of the column of `y`."""
        y = one_dimensional(y)
        if y.ndim != 1 or len(y) != rows:
            raise ValueError(f"y has the shape {list(y.shape)}, but X has {rows} rows: one label for each is needed")
        if known is not None:
            return encode_known(y, known, rows, "y"), known
        check_present(y, "y")
        if self._is_regression(y, name):
            y = as_numbers(y)
            check_range("y", y)
            return y, None
        classes, codes = classes_of(y)
        if len(classes) < 2:
            raise ValueError(f"all {rows} records have the same label: there is nothing to learn; if later records of "
                             "partial_fit have others, name all labels with `classes`")
        if self.task == "binary":
            check_two(classes)
        return codes.astype(np.int32), classes

    def _is_regression(self, y: np.ndarray, name: str | None) -> bool:
        """Returns True if the labels are passed to the library as they are. Warns of a guess that may be wrong."""
        if self.task is not None or y.dtype.kind not in "iuf":
            return self.task == "regression"
        if self.job is not None or self.preset == "linear_regression":  # the loss is the caller's
            return True
        if are_two_labels(y):
            return False
        if self.settings.get("model.loss") == _TASK_LOSS["classes"]:
            return False
        if self.preset in _ONE_VALUE or any(key == "model" or key.startswith(_LOSS_KEYS) for key in self.settings):
            return True
        classes = are_classes(y, name)
        if (guess := guess_of(y, classes)) is not None:
            warn(guess)
        return not classes

    def _classes_of_output(self) -> np.ndarray | None:
        output = self.description["outputs"][0]
        if output["loss"] == "softmax_cross_entropy":
            return np.arange(output["width"])
        return np.array([0, 1]) if output["prediction"] != "value" and output["width"] == 1 else None

    @staticmethod
    def _free_name(name: str, table: Table) -> str:
        while name in table.names:
            name += "_"
        return name

    def _train(
        self, table: Table, settings: Mapping[str, Any], callbacks: list[Callback], job: str | None = None
    ) -> None:
        """`job` is the text of a job file; None: that of the model's arguments."""
        given = (job.encode(), None) if job is not None else job_text(self.job) if self.job is not None else None
        self._take(train(table, settings, callbacks, threads_of(self.n_jobs), given))
        for text in self.description["warnings"]:
            warn(text)

    def _take(self, trained: Trained) -> None:
        self.description = {
            "reason": "", "warnings": [], "stopped": False, **json.loads(c.library().dp_model_describe(trained.pointer))}
        self._trained = trained

    def _model(self) -> Trained:
        if self._trained is None:
            raise RuntimeError("this model is not trained: call fit() or load() before")
        return self._trained

    # ---- predictions

    def predict_raw(self, X: Any, *, activation: bool = True) -> np.ndarray:
        """Returns all outputs, float32 [rows, floats]: probabilities, margins (loss "hinge"), or values of a regression.

        Args:
            X: as for `predict`.
            activation: False returns the values before the functions of the outputs: logits instead of probabilities,
                the logarithm of a rate, or the values of a regression.
        """
        model = self._model()
        table = X if isinstance(X, Table) else self._table_of(X)
        self._check_ids(table)
        out = np.empty((len(table), c.library().dp_model_row_floats(model.pointer)), np.float32)
        if len(table) > 0:
            predict = c.library().dp_predict if activation else c.library().dp_predict_raw
            c.check(predict(model.pointer, table.handle, threads_of(self.n_jobs), out.ctypes.data, out.size))
        return out

    def _table_of(self, X: Any) -> Table:
        """Makes the table of data that have the columns of the records of training."""
        X = with_titles(X, self._titles if self._names is None else None)
        return table_of(X, self._names, self._columns_of("text") - self._columns_of("number"))

    def _columns_of(self, kind: str) -> set[str]:
        return {column["name"] for column in self.description["columns"] if column["type"] == kind}

    def _check_ids(self, table: Table) -> None:
        """Warns of ids among floats, which round them."""
        for name in sorted(table.rounded & self._columns_of("text")):
            warn(f"column `{name}` has ids above 2^53 as floats, which round them, so different ids become one; read them as "
                 'integers, for example with pandas.read_csv(..., dtype={"' + name + '": "Int64"})')

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probabilities of `classes`, float32 [rows, classes].

        Raises:
            RuntimeError: the model has none, because it predicts numbers, or because its loss is "hinge", "bpr" or
                "sampled_softmax".
        """
        if self.classes is None:
            raise RuntimeError("this model predicts numbers and has no probabilities: call predict()")
        if self._has_margins():
            output = self.description["outputs"][0]
            kind = output["prediction"] + "s"
            raise RuntimeError(f'a model with the loss "{output["loss"]}" has {kind} and no probabilities: call predict() for '
                               f'classes or predict_raw() for {kind}, or train with the loss "logistic"')
        raw = self.predict_raw(X)
        return np.hstack([1 - raw, raw]) if raw.shape[1] == 1 else raw

    def predict(self, X: Any) -> np.ndarray:
        """Returns the most likely class of each row, or the value of a regression."""
        raw = self.predict_raw(X)
        if self.classes is None:
            return raw[:, 0] if raw.shape[1] == 1 else raw
        least = 0 if self._has_margins() else 0.5
        best = (raw[:, 0] >= least).astype(int) if raw.shape[1] == 1 else raw.argmax(axis=1)
        return self.classes[best]

    def _has_margins(self) -> bool:
        return self.description["outputs"][0]["prediction"] in ("margin", "score")

    def importance(self, X: Any, y: Any, *, repeats: int = 3, seed: int = 1) -> dict[str, float]:
        """Returns the permutation importance of each column (Breiman, "Random Forests", 2001): the rise of the logloss
        (of the loss "hinge": of that loss), or of the RMSE of a regression, when the values of the column are shuffled;
        the largest first.

        Args:
            X, y: records with labels that were not used for training; as those of `fit`, but no sparse matrix.
            repeats: the number of shuffles whose mean is taken.
            seed: of the shuffles.
        """
        X, y, _ = split(X, y, None)
        labels = encode_known(as_labels(y), self.classes, rows_of(X), "y")
        return permutation_importance(self, X, labels, self._names, repeats, seed)

    # ---- storing

    @property
    def history(self) -> list[dict[str, Any]]:
        """The figures of each epoch: a dict with the loss, the metrics and the learning rate."""
        return self.description.get("history", [])

    def save(self, folder: str | os.PathLike) -> None:
        """Writes a run folder. ``downpour predict``, ``eval`` and ``export`` read it, too."""
        model, extras = self._model(), self._extras()
        check_storable(extras)
        path = pathlib.Path(folder).absolute()
        c.check(c.library().dp_model_save(model.pointer, str(path).encode()))
        write_extras(path, extras)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Model:
        """Reads what save() or ``downpour train`` has written: the checkpoint of the best epoch, if the run keeps it."""
        model = cls()
        path = pathlib.Path(folder).absolute()
        handle = ctypes.c_void_p()
        c.check(c.library().dp_model_load(str(path).encode(), ctypes.byref(handle)))
        model._take(Trained(handle))
        model._set_extras(read_extras(path))
        return model

    def to_bytes(self) -> bytes:
        """Returns the model as one piece, for from_bytes(). It has no `feature_names`, and the labels as texts
        unless they are 0, 1, 2, …. A warning says so if they are no texts; pickle keeps them as they are."""
        piece = self._as_piece()
        kept = None if self.classes is None else self._kept_classes()
        if kept is not None and self.classes.tolist() != kept.tolist():
            shown, given = (", ".join(map(repr, each.tolist()[:3])) + (", …" if len(each) > 3 else "")
                            for each in (self.classes, kept))
            warn(f"the bytes do not have the labels {shown} as they are: from_bytes() gives {given}; pickle keeps them")
        return piece

    def _as_piece(self) -> bytes:
        model = self._model()
        pointer, size = ctypes.c_void_p(), ctypes.c_size_t()
        c.check(c.library().dp_model_to_bytes(model.pointer, ctypes.byref(pointer), ctypes.byref(size)))
        try:
            return ctypes.string_at(pointer, size.value)
        finally:
            c.library().dp_free(pointer)

    @classmethod
    def from_bytes(cls, data: bytes) -> Model:
        """Reads what to_bytes() has returned."""
        model = cls()
        model._take_bytes(data)
        model._set_extras({"weight_unit": None})
        return model

    def _take_bytes(self, data: bytes) -> None:
        handle = ctypes.c_void_p()
        c.check(c.library().dp_model_from_bytes(bytes(data), len(data), ctypes.byref(handle)))
        self._take(Trained(handle))

    def _extras(self) -> dict[str, Any]:
        return {"classes": None if self.classes is None else self.classes.tolist(), "names": self._names,
                "titles": self._titles, "weight_unit": self._weight_unit}

    def _set_extras(self, extras: Mapping[str, Any]) -> None:
        self._names, self._titles = extras.get("names"), extras.get("titles")
        self._weight_unit = extras.get("weight_unit", 1.0)
        if "classes" in extras:
            self.classes = None if extras["classes"] is None else np.array(extras["classes"])
            return
        self.classes = self._kept_classes()

    def _kept_classes(self) -> np.ndarray | None:
        """Returns the classes that the job of the model names: texts, or integers if the data were cells without types."""
        named = self.description["outputs"][0]["classes"]
        typeless = re.search(r'^format = "(csv|tsv)"', self.description["job"], re.MULTILINE)
        return (integers_of(named) if typeless else np.array(named)) if named else self._classes_of_output()

    def __getstate__(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.items() if key not in ("_trained", "description")}
        if self._trained is not None:
            state["_bytes"] = self._as_piece()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        data = state.pop("_bytes", None)
        self.__dict__.update(state, _trained=None, description={})
        if data is not None:
            self._take_bytes(data)
