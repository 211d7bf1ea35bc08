"""The programs: finds them, and runs `downpour train` for a job with several processes."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from typing import Any, Callable, Iterable, Literal, Mapping

from . import _files
from . import _library as c
from ._model import Model
from ._table import as_arrow
from ._training import Callback, toml_of
from ._values import check_finite, is_number, warn

__all__ = ["program", "train"]

_DIGEST = "python-data.json"  # in a complete run of data in memory: what they were


def program(name: str) -> str:
    """Returns the path of a program: that of the package, that beside the library that DOWNPOUR_LIBRARY names, or the
    one in PATH. Raises FileNotFoundError if there is none."""
    folders = [pathlib.Path(__file__).parent / "bin"]
    if library := os.environ.get("DOWNPOUR_LIBRARY"):
        folders.append(pathlib.Path(library).parent.parent / "bin")
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    if path := shutil.which(name):
        return path
    raise FileNotFoundError(f"there is no program `{name}`: install the wheel, or add the folder of the program to PATH")


def train(
    job: str | os.PathLike | None = None,
    *,
    data: Any = None,
    ps: int | Literal["in_workers"] | None = None,
    workers: int | None = None,
    run_dir: str | os.PathLike | None = None,
    fresh: bool = False,
    settings: Mapping[str, Any] | None = None,
    callbacks: Iterable[Callback] = (),
    verbose: bool = False,
) -> Model:
    """Trains a job with the processes that ``downpour train`` starts, and returns its model.

    Unlike `Model.fit`, this writes a run folder with checkpoints and starts a process again that has died. A call for a
    run that was interrupted continues it. A warning of the program becomes one of Python.

    Args:
        job: the path of a job file (.toml). None: a model is chosen for `data`.
        data: path of a data file, or a list of paths. A pandas DataFrame, PyArrow table or polars DataFrame is written to a
            file beside the run folder, RUN_DIR.data.csv, which is removed when the run is complete. It is RUN_DIR.data.jsonl if
            there are lists and, without `job`, if there are texts with line breaks, texts that are numbers, or categories
            of numbers. None: the job names its data.
        ps: parameter-server processes; None: those of the job, or 1. "in_workers": each worker process also runs one.
        workers: worker processes; None: those of the job, or 1. With one of each, everything runs in one process.
            0: one process with a worker for each replica.
        run_dir: run folder; None: that of the job.
        fresh: removes the run that is in the run folder. Otherwise it is continued.
        settings: keys of the job file and their values. They take precedence.
        callbacks: called with each event of the training, a dict with "event": "progress", "epoch", "eval", ...;
            the training ends early, with a checkpoint, if one returns True.
        verbose: shows what ``downpour train`` shows.

    Returns:
        The model of the best epoch. Its attribute `summary` is what ``downpour train --log-format json`` prints at the
        end: "accounts", "evaluations", "run_dir", "stopped_early" and more.

    Raises:
        DownpourError: `code` is the exit status of the program.
    """
    if job is None and data is None:
        raise ValueError("give a job file, data, or both")
    given = {"cluster.ps": ps, "cluster.workers": workers}
    if run_dir is not None:
        given["run_dir"] = str(pathlib.Path(run_dir).absolute())
    given = {key: value for key, value in given.items() if value is not None}
    settings = dict(settings or {})
    source, made = _source_of(data, settings.get("run_dir", given.get("run_dir")), detected=job is None)
    digest = None if made is None else _digest(made)
    if not fresh and digest is not None:
        _check_same_data(settings.get("run_dir", given.get("run_dir")), made, digest)
    paths = source.get("data.source", [])
    if job is None and len(paths) == 1:
        del source["data.source"]  # the argument names it
    given = {**given, **source, **settings}
    arguments = [os.fspath(job)] if job is not None else paths[:1]
    flags = [flag for key, value in given.items() for flag in ("--set", f"{key}={toml_of(value)}")]
    command = [program("downpour"), "train", *arguments, *flags, "--log-format", "json"]
    if fresh and "run_dir" in given:
        (pathlib.Path(given["run_dir"]) / _DIGEST).unlink(missing_ok=True)  # of the run that ends here
    summary = _run(command + (["--fresh"] if fresh else []), [callbacks] if callable(callbacks) else list(callbacks), verbose)
    if made is not None and summary["code"] == 0:  # otherwise the next call continues the run with the file
        made.unlink(missing_ok=True)
        (pathlib.Path(summary["run_dir"]) / _DIGEST).write_text(json.dumps({"blake2b": digest}))
    model = Model.load(summary["run_dir"])
    model.summary = summary
    return model


def _digest(path: pathlib.Path) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def _check_same_data(run_dir: str, made: pathlib.Path, digest: str) -> None:
    """Raises ValueError if the run is complete and was trained with other data in memory, because it would not train
    again."""
    path = pathlib.Path(run_dir) / _DIGEST
    if path.exists() and json.loads(path.read_text()).get("blake2b") != digest:
        made.unlink()
        raise ValueError(f"the run in {run_dir} is complete and was trained with other data; give fresh=True to replace it, "
                         "or another run_dir")


def _source_of(data: Any, run_dir: str | None, detected: bool) -> tuple[dict[str, Any], pathlib.Path | None]:
    """Returns the keys of the job that name the data, and the file beside the run folder that data in memory become.
    `detected`: the program detects the fields. In CSV files it can't do that if texts have line breaks."""
    if data is None:
        return {}, None
    if isinstance(data, (str, os.PathLike)):
        return {"data.source": [_absolute(data)]}, None
    if isinstance(data, (list, tuple)):
        if not data:
            raise ValueError("data is an empty list; name at least one file")
        return {"data.source": [_absolute(path) for path in data]}, None
    if run_dir is None:
        raise ValueError("data in memory need a run_dir, because no file gives the run its name")
    import pyarrow as pa

    data = as_arrow(data)
    if not isinstance(data, (pa.Table, pa.RecordBatch)) and type(data).__module__.partition(".")[0] != "pandas":
        raise TypeError(f"data is a {type(data).__name__}, but must be a path, a list of paths, a DataFrame or a PyArrow "
                        "table; make one with pandas.DataFrame(data)")
    data = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    if not isinstance(data, pa.Table):
        if list(data.columns) == list(range(data.shape[1])):  # the names that Model.fit gives them
            data = data.set_axis([f"x{i}" for i in range(data.shape[1])], axis=1)
        data = pa.Table.from_pandas(data, preserve_index=False)
    path = pathlib.Path(os.path.abspath(run_dir) + ".data.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    if detected:
        _check_numbers(data)
    batches = [("data", batch) for batch in data.to_batches()]
    if not any(_is_for_json(column, detected) for column in data.columns):
        has_breaks = _files.write(batches, path).has_breaks
        if not detected:
            return {"data.source": [str(path)], **({"data.quoted_newlines": True} if has_breaks else {})}, path
        if not has_breaks:  # a name such as "0" is no record, " a" is not "a", and "NA" is a text
            form = {"data.header": True, "data.delimiter": ",", "data.trim": False, "data.missing": []}
            return {"data.source": [str(path)], **form}, path
        path.unlink()
    path = path.with_suffix(".jsonl")
    _files.write(batches, path)
    return {"data.source": [str(path)]}, path


def _check_numbers(table: Any) -> None:
    """Raises ValueError for numbers that Model.fit refuses, too; the program would read them as missing values."""
    import pyarrow.types as kinds

    for name, column in zip(table.schema.names, table.columns):
        if kinds.is_floating(column.type):
            check_finite(f"column `{name}`", column.to_numpy())


def _is_for_json(column: Any, detected: bool) -> bool:
    """Returns True for a column of lists, and one whose values the program would take for numbers, if it detects the fields:
    texts such as "00512", also if other texts are in the column, and categories of numbers."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return True
    is_category = kinds.is_dictionary(kind)
    kind = kind.value_type if is_category else kind
    if not detected:
        return False
    if not _files.is_text(kind):
        return is_category and _files.is_number_or_boolean(kind)
    return any(map(is_number, filter(None, column.cast(pa.large_string()).unique().to_pylist())))


def _absolute(path: str | os.PathLike) -> str:
    """The path for a program. An address like s3://bucket/key stays as it is."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def _run(command: list[str], callbacks: list[Callback], verbose: bool) -> dict[str, Any]:
    """Runs the program and returns its summary. Ctrl-C is passed on to it, and it then ends with a checkpoint."""
    error: dict[str, Any] = {}
    stopping = False  # a second signal would end the program without a checkpoint
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen(
            command, stdout=out, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            for line in process.stderr:
                event = _event(line)
                if verbose and event.get("event") != "progress":
                    print(line, end="", flush=True)
                if event.get("event") == "error":
                    error = event
                elif event.get("event") == "notice" and event.get("level") != "note":
                    warn(event["text"])
                elif line.startswith("error: "):  # of the flags
                    error = {"what": line.removeprefix("error: ").strip()}
                if event and any([bool(callback(event)) for callback in callbacks]) and not stopping:
                    stopping = True
                    process.send_signal(signal.SIGINT)
            process.wait()
        except BaseException:
            if not stopping:
                process.send_signal(signal.SIGINT)
            try:
                process.communicate()
            except KeyboardInterrupt:  # the second one
                process.send_signal(signal.SIGINT)
            raise
        out.seek(0)
        lines = out.read().splitlines()
    stopped = process.returncode == 128 + signal.SIGINT and lines
    if process.returncode != 0 and not stopped:
        raise c.DownpourError(process.returncode, *(error.get(key, "") for key in ("id", "what", "where", "hint")))
    return json.loads(lines[-1])


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
