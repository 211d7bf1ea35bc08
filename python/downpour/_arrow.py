"""Tables of PyArrow, whose numbers and texts are read where they are."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from . import _library as c
from ._table import MOST_NUMBERS, Table, filled, leave_out, say_texts
from ._values import check_range, finite_vectors, text_of, vectors_of


def table_of(data: Any, texts: Collection[str] = ()) -> Table:
    """Makes a table of columns that the Arrow C data interface gives, without a copy of numbers and texts. `texts` are
    those of downpour._table.table_of()."""
    if isinstance(data, pa.Table):
        batches = data.combine_chunks().to_batches()
        if len(batches) > 1:
            raise ValueError("a column of texts has more than 2 GiB; cast it to large_string")
        data = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=data.schema)
    if not isinstance(data, pa.RecordBatch):
        raise TypeError(f"X is a {type(data).__name__} of PyArrow; give a table or a record batch")
    rounded: set[str] = set()
    columns = {name: _plain(name, column, rounded) for name, column in zip(_unique(data.schema.names), data.columns)}
    columns = {name: _booleans_as_texts(name, column) if name in texts else column
               for name, column in columns.items() if column is not None}
    if columns and all(isinstance(column, pa.Array) for column in columns.values()):
        return _ArrowTable(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), rounded)
    table = Table(data.num_rows)
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            table.add_numbers(name, column)
        elif _is_number_type(column.type):
            missing = column.is_null().to_numpy(zero_copy_only=False)
            numbers = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
            table.add_numbers(name, numbers.to_numpy(zero_copy_only=False), missing)
        else:
            _add_arrow_texts(table, name, column)
    return table


def _unique(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        name = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"two columns are named {name!r}; give each column a unique name")
    return names


def _is_number_type(kind: Any) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _add_arrow_texts(table: Table, name: str, column: Any) -> None:
    if not pa.types.is_dictionary(column.type):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise TypeError(f"column `{name}` has the Arrow type {column.type}; leave it out, or cast it to a number or a text")
        column = column.dictionary_encode()
    table.add_dictionary(name, column.indices.fill_null(-1).to_numpy(), column.dictionary.to_pylist())


def _plain(name: str, column: Any, rounded: set[str]) -> Any:
    """Returns a column of decimals as numbers, and one of lists of numbers as a NumPy array [rows, length]; None for times,
    with a warning. Checks the range of floats, and adds the name of a column that rounds integers to `rounded`."""
    kind = column.type
    if pa.types.is_temporal(kind):
        return leave_out(name)
    if pa.types.is_null(kind):
        return column.cast(pa.float64())
    if kind == getattr(pa, "string_view", lambda: None)():
        return column.cast(pa.string())
    if pa.types.is_decimal(kind):
        return _of_decimals(column)
    if pa.types.is_dictionary(kind) and not (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)):
        texts = [None if value is None else text_of(value) for value in column.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(column.indices, pa.array(texts, pa.string()))
    if pa.types.is_floating(kind):
        if check_range(f"column `{name}`", column.to_numpy(zero_copy_only=False)):
            rounded.add(name)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return column
    elements = column.flatten()
    lengths = column.value_lengths().unique().to_pylist()
    regular = len(lengths) == 1 and lengths[0] and column.null_count == 0 and elements.null_count == 0
    if regular and _is_number_type(kind.value_type):
        return finite_vectors(name, elements.to_numpy(zero_copy_only=False).reshape(len(column), lengths[0]))
    return vectors_of(name, column.to_numpy(zero_copy_only=False))


def _booleans_as_texts(name: str, column: Any) -> Any:
    if isinstance(column, np.ndarray) or not pa.types.is_boolean(column.type):
        return column
    say_texts(name)
    return compute.if_else(column, "True", "False")


def _of_decimals(column: Any) -> Any:
    """Returns decimals as integers, if they have no decimal places, otherwise as floats."""
    if column.type.scale == 0:
        for kind in (pa.int64(), pa.uint64()):
            with contextlib.suppress(pa.ArrowInvalid):
                return column.cast(kind)
    return column.cast(pa.float64())


class _ArrowTable(Table):
    def __init__(self, batch: Any, rounded: set[str]):
        super().__init__(batch.num_rows)
        self.rounded = rounded
        self._batch = batch
        self.names = list(batch.schema.names)

    def add_numbers(self, name: str, values: np.ndarray) -> None:
        self._append(name, pa.array(values))

    def numbers(self, names: set[str]) -> list[np.ndarray]:
        columns = [column for name, column in zip(self.names, self._batch.columns)
                   if name in names and _is_number_type(column.type)]
        if self.rows * len(columns) > MOST_NUMBERS:
            return []
        return [filled(column.to_numpy(zero_copy_only=False).astype(np.float64), None) for column in columns]

    def columns_of_texts(self) -> set[str]:
        return {name for name, column in zip(self.names, self._batch.columns) if not _is_number_type(column.type)}

    def add_dictionary(self, name: str, codes: np.ndarray, texts: Iterable[str]) -> None:
        indices = pa.array(codes, mask=np.asarray(codes) < 0)
        self._append(name, pa.DictionaryArray.from_arrays(indices, pa.array([str(text) for text in texts])))

    def _append(self, name: str, values: Any) -> None:
        self._check_rows(name, len(values))
        self.names.append(name)
        arrays = [*self._batch.columns, values]
        self._batch = pa.RecordBatch.from_arrays(arrays, names=self.names)

    @property
    def handle(self) -> ctypes.c_void_p:
        if self._handle is None:
            schema, array = (ctypes.create_string_buffer(128) for _ in range(2))
            self._batch._export_to_c(ctypes.addressof(array), ctypes.addressof(schema))
            handle = ctypes.c_void_p()
            c.check(c.library().dp_table_from_arrow(schema, array, ctypes.byref(handle)))
            self._handle = handle
        return self._handle
