"""Tables: NumPy, SciPy, pandas and Arrow data as columns of the C interface, without a copy where that is possible."""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any, Collection, Iterable, Mapping, Sequence

import numpy as np

from . import _library as c
from ._values import (
    are_times, as_array, check_range, factorize, is_missing, is_number, is_sequence, numbers_of, text_of, vectors_of, warn)

#: A matrix with more columns is one column of rows; one with fewer is a column of numbers each.
WIDE = 256
_ID = re.compile("(^|[^a-z])(ids?|uid|userid|itemid|movieid|zip|zipcode|postcode|sku|isbn)$|^(user|item|movie|product|customer)$")
#: A linear model of more would take long.
MOST_NUMBERS = 10_000_000


class Table:
    """Columns that the library reads. Keeps their memory alive. `len(table)` is the number of rows."""

    _handle: ctypes.c_void_p | None = None  # also if __init__ fails
    wide: np.ndarray | None = None  # an array whose columns are one column of the table

    def __init__(self, rows: int, texts: Collection[str] = ()):
        self.rows = rows
        self.texts = texts  # columns of a model in which booleans are texts, as in files and categories
        self.names: list[str] = []
        self.rounded: set[str] = set()  # columns of floats that are too large to have every integer
        self._columns: list[c.Column] = []
        self._alive: list[Any] = []

    def __len__(self) -> int:
        return self.rows

    def __del__(self):
        if self._handle is not None:
            c.release("dp_table_free", self._handle)
            self._handle = None

    @property
    def handle(self) -> ctypes.c_void_p:
        if self._handle is None:
            handle = ctypes.c_void_p()
            columns = (c.Column * len(self._columns))(*self._columns)
            c.check(c.library().dp_table_create(self.rows, columns, len(self._columns), ctypes.byref(handle)))
            self._handle = handle
        return self._handle

    @property
    def source(self) -> str:
        """The name of the table as the source of a job."""
        return c.library().dp_table_name(self.handle).decode()

    def add_numbers(self, name: str, values: np.ndarray, missing: np.ndarray | None = None) -> None:
        """Adds a column of shape [rows] or [rows, ...]. NaN and the rows `missing` are missing values."""
        self._check_rows(name, len(values))
        if values.ndim > 2:
            values = values.reshape(len(values), -1)
        if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
            values = values.astype(np.float64)
        if values.ndim == 2 and values.shape[1] > 1 and values.strides[1] != values.itemsize:
            values = np.ascontiguousarray(values)
        if check_range(f"column `{name}`", values):
            self.rounded.add(name)
        width = values.shape[1] if values.ndim == 2 else 1
        valid = np.packbits(~missing, bitorder="little") if missing is not None and missing.any() else None
        self._add(
            name, (values, valid), kind=c.NUMBERS, valid=None if valid is None else valid.ctypes.data, type=values.dtype.str.replace("=", "<").encode(), values=values.ctypes.data,
            stride=values.strides[0] if len(values) > 1 else values.itemsize * width, width=width)

    def numbers(self, names: set[str]) -> list[np.ndarray]:
        """Returns the columns of numbers among `names`, as float64 [rows, width]; missing values have the mean. Returns none
        if they are more than MOST_NUMBERS."""
        chosen = [i for i, column in enumerate(self._columns) if column.kind == c.NUMBERS and self.names[i] in names]
        if self.rows * sum(self._columns[i].width for i in chosen) > MOST_NUMBERS:
            return []
        found = []
        for values, valid in (self._alive[i] for i in chosen):
            present = None if valid is None else np.unpackbits(valid, count=self.rows, bitorder="little").astype(bool)
            found.append(filled(values, present))
        return found

    def most_ids(self) -> int:
        """Returns the number of different values of the column of texts or ids that has most; of columns whose rows almost all
        differ, such as sentences, none counts."""
        counts = [0]
        for name, column, (values, *_) in zip(self.names, self._columns, self._alive):
            if column.kind == c.DICTIONARY:
                counts.append(column.text_count)
            elif column.kind == c.NUMBERS and column.width == 1 and _names_ids(name):
                counts.append(len(np.unique(values)))
        return max(count for count in counts if count * 1.1 <= self.rows)

    def columns_of_texts(self) -> set[str]:
        """Returns the names of the columns of texts."""
        return {name for name, column in zip(self.names, self._columns) if column.kind == c.DICTIONARY}

    def add_dictionary(self, name: str, codes: np.ndarray, texts: Iterable[str]) -> None:
        """Adds a column of texts: row i is texts[codes[i]]; a negative code is a missing value."""
        self._check_rows(name, len(codes))
        encoded = [text_of(text).encode(errors="surrogateescape") for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        blob = np.frombuffer(b"".join(encoded) + b"\0", np.uint8)
        codes = np.ascontiguousarray(codes)
        self._add(
            name, (codes, offsets, blob), kind=c.DICTIONARY, type=codes.dtype.str.encode(), values=codes.ctypes.data,
            stride=codes.itemsize, width=1, offsets=offsets.ctypes.data, wide_offsets=1, text=blob.ctypes.data,
            text_count=len(encoded))

    def add_objects(self, name: str, values: Any) -> None:
        """Adds a column of texts or other objects. None and NaN are missing values. Warns of numbers that are texts."""
        codes, texts = factorize(name, values)
        if len(texts) > max(20, self.rows // 2) and all(map(is_number, texts)):
            warn(f"column `{name}` has the numbers {texts[0]!r}, {texts[1]!r} … as texts, so each is a category of its own; "
                 "convert it, for example with pandas.to_numeric")
        self.add_dictionary(name, codes, texts)

    def add_pairs(self, name: str, matrix: Any) -> None:
        """Adds a SciPy matrix: in each row its column numbers are keys, with their values."""
        self._check_rows(name, matrix.shape[0])
        csr = matrix.tocsr()
        if not csr.has_canonical_format:  # several values of a place count as their sum
            csr = csr.copy()
            csr.sum_duplicates()
        if not np.isfinite(csr.data).all():
            raise ValueError("the sparse matrix contains NaN or infinite values; remove them, or set them to 0")
        values = csr.data if csr.data.dtype.kind in "biuf" else csr.data.astype(np.float64)
        keys = csr.indices if len(csr.indices) else np.zeros(1, np.int32)
        values = values if len(values) else np.zeros(1, np.float32)
        starts = np.ascontiguousarray(csr.indptr)
        self._add(
            name, (values, keys, starts), kind=c.PAIRS, type=values.dtype.str.encode(), values=values.ctypes.data,
            width=1, start_type=starts.dtype.str.encode(), starts=starts.ctypes.data,
            key_type=keys.dtype.str.encode(), keys=keys.ctypes.data)

    def _add(self, name: str, alive: Any, **members: Any) -> None:
        self.names.append(name)
        self._columns.append(c.Column(struct_size=ctypes.sizeof(c.Column), name=name.encode(), **members))
        self._alive.append(alive)

    def _check_rows(self, name: str, rows: int) -> None:
        if rows != self.rows:
            raise ValueError(f"column `{name}` has {rows} rows, but the data have {self.rows}")


def _names_ids(name: str) -> bool:
    """Returns whether integers of a column with this name are ids: those of the words that the library knows as such."""
    return _ID.search(re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()) is not None


def filled(values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
    """Returns numbers as float64 [rows, width], with the mean of its column in the place of a missing value."""
    matrix = values.reshape(len(values), -1).astype(np.float64)
    if present is not None:
        matrix[~present] = np.nan
    gone = np.isnan(matrix)
    if gone.any():
        means = np.where(gone, 0, matrix).sum(axis=0) / np.maximum((~gone).sum(axis=0), 1)
        matrix = np.where(gone, means, matrix)
    return matrix


def rows_of(X: Any) -> int:
    """Returns the number of rows of any supported kind of data."""
    if isinstance(X, Mapping):
        return len(next(iter(X.values()), ()))
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape is not None else len(X)


def split_target(X: Any, target: str) -> tuple[Any, Any]:
    """Returns the table without the column `target`, and the column."""
    module = type(X).__module__.partition(".")[0]
    structured = getattr(getattr(X, "dtype", None), "names", None)
    if structured is not None:
        X = {name: X[name] for name in structured}
    names = X.schema.names if module == "pyarrow" else list(X) if isinstance(X, Mapping) or module == "pandas" else None
    if names is None:
        raise ValueError(f"y is the name {target!r}, but X is an array without names; give y as an array")
    if target not in names:
        raise ValueError(f"X has no column {target!r}; it has {', '.join(map(str, names[:20]))}")
    if module == "pandas":
        return X.drop(columns=target), X[target]
    if module == "pyarrow":
        column = X.column(names.index(target))
        rest = X.select([name for name in names if name != target])
        return rest, column.to_pandas().to_numpy()
    return {name: values for name, values in X.items() if name != target}, X[target]


def one_eval_set(eval_set: Any) -> tuple[Any, Any] | None:
    """Returns the (X, y) of an `eval_set`, which may stand in a list, as LightGBM and XGBoost expect it."""
    pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
    if pair is None:
        return None
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or isinstance(pair[0], tuple):
        what = f"a {type(pair).__name__}" + (f" of {len(pair)}" if isinstance(pair, (tuple, list)) else "")
        raise ValueError(f"eval_set is {what}, but must be one pair (X, y)")
    return pair


def split(X: Any, y: Any, eval_set: Any) -> tuple[Any, Any, tuple[Any, Any] | None]:
    """Reads the data, see loaded(), and takes the labels out of them, where `y` is the name of a column."""
    X, y = split_target(loaded(X), y) if isinstance(y, str) else (loaded(X), y)
    eval_set = one_eval_set(eval_set)
    if eval_set is not None:
        eval_set = (loaded(eval_set[0]), eval_set[1])
        eval_set = split_target(*eval_set) if isinstance(eval_set[1], str) else eval_set
    return X, y, eval_set


def _unnamed_columns(X: Any) -> int | None:
    """Returns the number of columns of an array, or of a frame of pandas with the numbers 0, 1, ... for names; None for other
    data."""
    module = type(X).__module__.partition(".")[0]
    if isinstance(X, list | tuple):
        return len(X[0]) if len(X) > 0 and isinstance(X[0], list | tuple | np.ndarray) else None
    if module == "pandas":
        return X.shape[1] if list(getattr(X, "columns", "-")) == list(range(X.shape[-1])) else None
    named = module in ("scipy", "pyarrow") or hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__")
    shape = () if named else getattr(X, "shape", ())
    return shape[1] if len(shape) == 2 and getattr(getattr(X, "dtype", None), "names", None) is None else None


def titles_of(X: Any) -> list[str] | None:
    """Returns the names that a table of pandas or PyArrow has for its columns, and x0, x1, ... for an array; None for other
    data."""
    if (columns := _unnamed_columns(X)) is not None:
        return [f"x{i}" for i in range(columns)]
    module = type(X).__module__.partition(".")[0]
    titles = list(X.columns) if module == "pandas" else list(X.schema.names) if module == "pyarrow" else None
    return None if titles is None else list(map(str, titles))


def with_titles(X: Any, titles: list[str] | None) -> Any:
    """Returns the columns of an array as those of the table that a model was trained on, by position. Warns of it, as
    scikit-learn does. Returns other data unchanged. Raises ValueError for an array of another width."""
    columns = _unnamed_columns(X)
    if columns is None or titles is None:
        return X
    if columns != len(titles):
        raise ValueError(f"X has {columns} columns, but the model was trained on {len(titles)}")
    if titles == titles_of(X) or not isinstance(X, np.ndarray):
        return X
    warn("X is an array without names, but the model was trained on a table; its columns are taken in the order of the table")
    return {name: X[:, i] for i, name in enumerate(titles)}


def _is_dataset(X: Any) -> bool:
    return type(X).__module__ == "pyarrow._dataset" and hasattr(X, "to_table")


def as_arrow(X: Any) -> Any:
    """Returns a frame of another library with Arrow's interface, such as polars, as a PyArrow table. Returns other data
    unchanged. Raises ValueError for other frames, whose names would be lost."""
    if not hasattr(X, "columns") or isinstance(X, np.ndarray):
        return X
    module = type(X).__module__.partition(".")[0]
    if module in ("pandas", "pyarrow"):
        return X
    if not hasattr(X, "__arrow_c_stream__"):
        how = "X.collect()" if hasattr(X, "collect") else "X.to_pandas()"
        raise ValueError(f"X is a {type(X).__name__} of {module}, which can't be read; give a table, for example {how}")
    import pyarrow as pa

    return pa.table(X)


def loaded(X: Any) -> Any:
    """Returns a table: reads a dataset of PyArrow or the file of a path (Parquet, Feather), joins the tables that an
    iterator gives, or calls as_arrow(). Returns other data unchanged."""
    if isinstance(X, (str, os.PathLike)):
        from . import _files

        return _files.read(X)
    if _is_dataset(X):
        return X.to_table()
    if isinstance(X, list) and X and all(isinstance(part, (str, os.PathLike)) for part in X):
        raise ValueError(f"X is a list of {len(X)} paths; give one path, or an iterator over tables, for example "
                         "(pyarrow.parquet.read_table(path) for path in paths)")
    if isinstance(X, list) and X and (isinstance(X[0], Mapping) or hasattr(X[0], "columns")):
        what = "pandas.DataFrame(X)" if isinstance(X[0], Mapping) else "an iterator, for example iter(X), or one joined table"
        raise ValueError(f"X is a list of {type(X[0]).__name__}; give {what}")
    if not hasattr(X, "__next__"):
        return as_arrow(X)
    parts = [as_arrow(part) for part in X]
    if not parts:
        raise ValueError("X is an iterator without data; an iterator can be used once")
    module = type(parts[0]).__module__.partition(".")[0]
    if module == "pyarrow":
        import pyarrow as pa

        tables = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in parts]
        return pa.concat_tables(tables)
    if module == "pandas":
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    if module == "scipy":
        import scipy.sparse

        return scipy.sparse.vstack(parts, format="csr")
    if isinstance(parts[0], Mapping):
        other = next((part for part in parts if set(part) != set(parts[0])), None)
        if other is not None:
            raise ValueError(f"X is an iterator over mappings with other columns: {', '.join(map(str, parts[0]))}, and "
                             f"{', '.join(map(str, other))}; give each the same")
        return {name: np.concatenate([as_array(part[name]) for part in parts]) for name in parts[0]}
    return np.concatenate([as_array(part) for part in parts])


def table_of(X: Any, names: Sequence[str] | None = None, texts: Collection[str] = ()) -> Table:
    """Makes a table of a NumPy array [rows, columns], SciPy matrix, pandas DataFrame, PyArrow table or record batch,
    or a mapping of names to arrays, or of what loaded() makes of `X`. Columns of an array are named `names`, otherwise
    x0, x1, ... Booleans of the columns `texts` become the texts "True" and "False", with a warning."""
    X = loaded(X)
    module = type(X).__module__.partition(".")[0]
    if module == "pyarrow":
        from . import _arrow

        return _arrow.table_of(X, texts)
    if module == "pandas" and not hasattr(X, "columns"):
        raise ValueError("X is a series; give a frame, for example X.to_frame()")
    table = Table(rows_of(X), texts)
    if module == "scipy":
        table.add_pairs("features", X)
    elif module == "pandas":
        if not X.columns.is_unique:
            name = X.columns[X.columns.duplicated()][0]
            raise ValueError(f"two columns are named {name!r}; give each column a unique name")
        unnamed = list(X.columns) == list(range(X.shape[1]))  # the same names as those of an array
        for i, name in enumerate(X.columns):
            _add_series(table, f"x{i}" if unnamed else str(name), X[name])
    elif isinstance(X, Mapping):
        for name, values in X.items():
            _add_array(table, str(name), as_array(values))
    else:
        _add_matrix(table, as_array(X), names)
    return table


def _add_matrix(table: Table, matrix: np.ndarray, names: Sequence[str] | None) -> None:
    if matrix.dtype.names is not None:
        for name in matrix.dtype.names:
            _add_array(table, name, matrix[name])
        return
    if matrix.ndim == 1:
        raise ValueError("the data are one-dimensional; reshape them to [rows, columns], for example X.reshape(-1, 1)")
    if matrix.ndim > 2:
        matrix = matrix.reshape(len(matrix), -1)
    columns = matrix.shape[1]
    if names is not None and len(names) != columns:
        raise ValueError(f"feature_names has {len(names)} names, but X has {columns} columns")
    if names is None and columns > WIDE and matrix.dtype.kind in "biuf":
        if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
            row, column = np.argwhere(~np.isfinite(matrix))[0]
            raise ValueError(
                f"X has more than {WIDE} columns and the value {matrix[row, column]} in row {row}, column {column}; fill such "
                "values, or give feature_names, so that each column becomes a field with missing values")
        table.add_numbers("x", matrix)
        table.wide = matrix
        return
    for i in range(columns):
        _add_array(table, str(names[i]) if names is not None else f"x{i}", matrix[:, i])


def _add_array(table: Table, name: str, values: np.ndarray) -> None:
    if values.dtype.kind == "b" and name in table.texts:
        _add_objects(table, name, values.astype(object))
    elif values.dtype.kind in "biuf":
        table.add_numbers(name, values)
    elif values.dtype.kind == "O" and values.ndim == 1:
        _add_objects(table, name, values)
    elif values.dtype.kind in "SU":
        table.add_objects(name, values)
    elif values.dtype.kind in "Mm":
        leave_out(name)
    else:
        raise TypeError(f"column `{name}` has the type {values.dtype}; convert it to numbers or texts")


def _add_objects(table: Table, name: str, values: np.ndarray) -> None:
    first = next((value for value in values if not is_missing(value)), None)
    if name in table.texts and any(isinstance(value, (bool, np.bool_)) for value in values):
        say_texts(name)
        table.add_objects(name, values)
    elif isinstance(first, str):
        table.add_objects(name, values)
    elif is_sequence(first):
        table.add_numbers(name, vectors_of(name, values))
    elif are_times(values):
        leave_out(name)
    elif (numbers := numbers_of(values)) is not None:
        table.add_numbers(name, *numbers)
    else:
        table.add_objects(name, values)


def say_texts(name: str) -> None:
    warn(f"column `{name}` has booleans, but the model was trained on texts; they are taken as the texts "
         '"True" and "False", as pandas writes them')


def leave_out(name: str) -> None:
    warn(f"column `{name}` has times, which a model can't use as they are; it is left out")


def _add_series(table: Table, name: str, series: Any) -> None:
    dtype = series.dtype
    if hasattr(dtype, "fill_value"):
        series = series.sparse.to_dense()
        dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if hasattr(dtype, "categories"):
        table.add_dictionary(name, series.cat.codes.to_numpy(), series.cat.categories)
    elif kind in "Mm":
        leave_out(name)
    elif isinstance(dtype, np.dtype):
        _add_array(table, name, series.to_numpy())
    elif kind == "f":  # pandas' types with missing values
        table.add_numbers(name, series.to_numpy(np.float64, na_value=np.nan))
    elif kind in "biu" and not (kind == "b" and name in table.texts):
        missing = series.isna().to_numpy()
        table.add_numbers(name, series.to_numpy(dtype.numpy_dtype, na_value=kind != "b" and 0), missing)
    else:
        _add_array(table, name, series.to_numpy(object))
