"""Files of tables that the programs do not read: Parquet, Feather (Arrow), and pickles of pandas. Needs PyArrow."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
from typing import IO, Any, Iterable, Iterator, NamedTuple

from ._values import is_number, text_of

__all__ = ["convert", "read", "write"]

_BATCH_ROWS = 65_536


def read(path: str | os.PathLike) -> Any:
    """Returns the table of a Parquet or Feather file, or of a folder of Parquet files, as a PyArrow table."""
    import pyarrow as pa

    try:
        batches = list(_batches(pathlib.Path(path), allow_pickle=False))
    except _PickleError:
        raise ValueError(f"{path}: a pickle can run any program; if you trust who made it, give the frame: "
                         "pandas.read_pickle(path)") from None
    return pa.Table.from_batches(batches) if batches else pa.table({})


class _PickleError(ValueError):
    pass


class Converted(NamedTuple):
    records: int
    has_breaks: bool  # a text of a CSV file has a line break: data.quoted_newlines = true reads it
    names_are_numbers: bool  # a column of a CSV file is named "0", for example: data.header = true reads it


def convert(sources: list[str | os.PathLike], out: str | os.PathLike, *, allow_pickle: bool = False) -> Converted:
    """Writes tables as one file that the programs read.

    Args:
        sources: Parquet or Feather files, folders of Parquet files, or pickles of pandas, all with the same columns.
        out: CSV with a header if it ends in .csv, an object per line if it ends in .jsonl; each also with .gz. Booleans
            become 1 and 0, decimals become numbers (with all digits, if they have no decimal places), times become
            texts. A missing value is an empty cell, or no member.
        allow_pickle: reads pickles, which can run any program.

    Raises:
        ValueError: the format of a file is not known, or its columns can't be written or differ from those of the first.
    """
    batches = ((source, batch) for source in sources for batch in _batches(pathlib.Path(source), allow_pickle))
    return write(batches, pathlib.Path(out))


def write(batches: Iterable[tuple[Any, Any]], out: pathlib.Path) -> Converted:
    """Writes pairs of a name and a record batch, as convert() does it. The file gets its name when it is complete."""
    kind = {".csv": _CsvLines, ".jsonl": _JsonLines}.get(pathlib.Path(out.name.removesuffix(".gz")).suffix)
    if kind is None:
        raise ValueError(f"{out}: the name must end in .csv, .jsonl, .csv.gz or .jsonl.gz")
    unfinished = out.with_name(out.name + ".tmp")
    records = 0
    try:
        with (gzip.open(unfinished, "wb", 6) if out.suffix == ".gz" else unfinished.open("wb")) as file:
            lines = kind(file)
            for source, batch in batches:
                lines.add(batch, source)
                records += batch.num_rows
            lines.close()
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)
    named = lines.names or []
    return Converted(records, lines.has_breaks, kind is _CsvLines and any(map(is_number, named)))


def _batches(path: pathlib.Path, allow_pickle: bool) -> Iterator[Any]:
    """Yields the record batches of a file, without holding all of it in memory."""
    import pyarrow as pa
    import pyarrow.dataset as dataset

    if path.is_dir():
        folder = dataset.dataset(path, format="parquet", partitioning="hive")  # columns of names such as day=1
        for part in folder.get_fragments():
            own = set(part.physical_schema.names)
            written = set(dataset.get_partition_keys(part.partition_expression))
            missing = [name for name in folder.schema.names if name not in own | written]
            extra = [name for name in part.physical_schema.names if name not in folder.schema.names]
            if missing or extra:
                raise ValueError(f"{part.path} has " + (
                    f"no column `{missing[0]}`" if missing else f"the column `{extra[0]}`") +
                    ", unlike the first file of the folder: convert them apart")
        try:
            yield from folder.to_batches(batch_size=_BATCH_ROWS)
        except pa.ArrowInvalid as error:
            raise ValueError(_other_type(folder) or f"{path}: {error}") from error
        return
    with path.open("rb") as file:
        begin = file.read(6)
    if begin.startswith(b"PAR1"):
        yield from dataset.dataset(path, format="parquet").to_batches(batch_size=_BATCH_ROWS)
    elif begin.startswith((b"ARROW1", b"FEA1")):
        yield from dataset.dataset(path, format="feather").to_batches(batch_size=_BATCH_ROWS)
    elif path.suffix in (".pkl", ".pickle") or begin.startswith(b"\x80"):
        if not allow_pickle:
            raise _PickleError(f"{path}: a pickle can run any program; add --allow-pickle if you trust who made it")
        import pandas as pd

        frame = pd.read_pickle(path)
        yield from pa.Table.from_pandas(frame, preserve_index=False).to_batches(max_chunksize=_BATCH_ROWS)
    else:
        raise ValueError(f"{path} is no Parquet file, Feather file or pickle; it begins with {begin!r}")


def _other_type(folder: Any) -> str:
    """Returns what file of a folder has a column of another type than the first one; empty if none has."""
    for part in folder.get_fragments():
        for field in part.physical_schema:
            first = folder.schema.field(field.name).type
            if field.type != first:
                return (f"{part.path}: column `{field.name}` is {field.type}, but {first} in the first file of the folder; "
                        "write the files with one type, or read them with pandas and join them")
    return ""


def _plain(batch: Any, source: Any, lists: bool) -> Any:
    """Returns the batch with columns of numbers, texts and, with `lists`, lists of them."""
    import pyarrow as pa
    import pyarrow.compute as compute
    import pyarrow.types as kinds

    def plain_type(name: str, kind: Any) -> Any:
        if kinds.is_dictionary(kind):
            kind = kind.value_type
        if kinds.is_null(kind):
            return pa.string()
        if kinds.is_boolean(kind):
            return pa.int8()
        if kinds.is_decimal(kind):  # ids keep all digits
            return pa.float64() if kind.scale > 0 else kind
        if is_text(kind):
            return pa.large_string() if kind == _string_view() else kind
        if kinds.is_integer(kind) or kinds.is_floating(kind):
            return pa.float32() if kinds.is_float16(kind) else kind
        if kinds.is_temporal(kind) and not kinds.is_duration(kind):
            return pa.string()
        if lists and (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
            return pa.list_(plain_type(name, kind.value_type))
        of_times = "; leave it out, or convert it to numbers, for example with .dt.total_seconds()"
        of_lists = "" if lists else "; a list can be written to .jsonl"
        hint = of_times if kinds.is_duration(kind) else of_lists if kinds.is_nested(kind) else "; leave it out"
        raise ValueError(f"{source}: column `{name}` has the type {kind}, which can't be written{hint}")

    columns = []
    for name, column in zip(batch.schema.names, batch.columns):
        try:
            if lists and kinds.is_dictionary(column.type):  # in JSON, categories of numbers can be texts
                column = _texts_of(column)
            column = column.cast(plain_type(name, column.type))
        except pa.ArrowException as error:
            raise ValueError(f"{source}: column `{name}`: {error}") from error
        if kinds.is_floating(column.type):
            column = compute.if_else(compute.is_nan(column), None, column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _texts_of(column: Any) -> Any:
    """Returns categories of numbers and booleans as those of their texts, as Model has them."""
    import pyarrow as pa

    if not is_number_or_boolean(column.type.value_type):
        return column
    texts = [None if value is None else text_of(value) for value in column.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(column.indices, pa.array(texts, pa.string()))


def is_number_or_boolean(kind: Any) -> bool:
    """Returns True for the types of numbers and booleans of PyArrow."""
    import pyarrow.types as kinds

    return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_boolean(kind)


def is_text(kind: Any) -> bool:
    """Returns True for the types of texts of PyArrow."""
    import pyarrow.types as kinds

    return kinds.is_string(kind) or kinds.is_large_string(kind) or kind == _string_view()


def _string_view() -> Any:
    import pyarrow as pa

    return getattr(pa, "string_view", lambda: None)()  # of PyArrow 16 and later


def _has_breaks(table: Any) -> bool:
    import pyarrow.compute as compute
    import pyarrow.types as kinds

    texts = [column for column in table.columns if kinds.is_string(column.type) or kinds.is_large_string(column.type)]
    return any(compute.any(compute.match_substring_regex(column, "[\\r\\n]")).as_py() for column in texts)


def _like(table: Any, schema: Any, source: Any) -> Any:
    """Returns the table with the types of the first one."""
    import pyarrow as pa

    columns = []
    for field, column in zip(schema, table.columns):
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException as error:
            raise ValueError(f"{source}: column `{field.name}` is {field.type} in the first rows, but "
                             f"{column.type} here: {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


class _Lines:
    """A file of lines, with the columns of its first batch."""

    def __init__(self, file: IO[bytes]):
        self.file = file
        self.names: list[str] | None = None
        self.has_breaks = False  # a cell has a line break

    def check(self, batch: Any, source: Any) -> None:
        if self.names is None:
            self.names = batch.schema.names
        if batch.schema.names != self.names:
            raise ValueError(f"{source} has the columns {', '.join(batch.schema.names)}, but the first file has "
                             f"{', '.join(self.names)}: convert them apart")


class _CsvLines(_Lines):
    _schema: Any = None
    _writer: Any = None

    def add(self, batch: Any, source: Any) -> None:
        import pyarrow as pa
        import pyarrow.csv as csv

        self.check(batch, source)
        plain = pa.Table.from_batches([_plain(batch, source, lists=False)])
        self._schema = self._schema or plain.schema
        self.has_breaks = self.has_breaks or _has_breaks(plain)
        plain = _like(plain, self._schema, source)
        if plain.num_columns == 1:  # a missing value is "" then, because an empty line is no record
            texts = plain.column(0).cast(pa.large_string()).fill_null("")
            plain = pa.table([texts], names=plain.schema.names)
        self._writer = self._writer or csv.CSVWriter(self.file, plain.schema)
        self._writer.write_table(plain)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _JsonLines(_Lines):
    def add(self, batch: Any, source: Any) -> None:
        self.check(batch, source)
        plain = _plain(batch, source, lists=True)
        lines = [self._line(row, source) for row in plain.to_pylist()]
        self.file.write("".join(line + "\n" for line in lines).encode())

    @staticmethod
    def _line(row: dict[str, Any], source: Any) -> str:
        members = {name: value for name, value in row.items() if value is not None and value == value}
        try:
            return json.dumps(members, allow_nan=False, default=int)  # a decimal without decimal places
        except ValueError:
            name = next(name for name, value in members.items() if not _is_json(value))
            raise ValueError(f"{source}: column `{name}` has the value {members[name]}, which JSON does not have; "
                             "write .csv, or remove the row") from None

    def close(self) -> None:
        pass


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False, default=int)
    except ValueError:
        return False
    return True
