"""The programs: finds them, and runs `downpour train` for a job with several processes."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from typing import Any, Callable, Iterable, Iterator, Mapping

from . import _library as c
from ._model import Callback, Model, _toml

__all__ = ["program", "train"]


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
    ps: int = 1,
    workers: int = 1,
    run_dir: str | os.PathLike | None = None,
    fresh: bool = False,
    settings: Mapping[str, Any] | None = None,
    callbacks: Iterable[Callback] = (),
    verbose: bool = False,
) -> Model:
    """Trains a job with the processes that ``downpour train`` starts, and returns its model.

    Unlike `Model.fit`, this writes a run folder with checkpoints, a process that dies is started again, and the training
    of a run that has not ended is continued.

    Args:
        job: the path of a job file (.toml). None: a model is chosen for `data`.
        data: path of a data file, or a list of paths. A pandas DataFrame or PyArrow table is written to a temporary
            CSV file, which is removed at the end. None: the job names its data.
        ps: parameter-server processes.
        workers: worker processes. With one of each, everything runs in one process.
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
    given = dict(settings or {})
    given.update({"cluster.ps": ps, "cluster.workers": workers})
    if run_dir is not None:
        given["run_dir"] = str(pathlib.Path(run_dir).absolute())
    with _paths_of(data) as paths:
        arguments = [os.fspath(job)] if job is not None else paths
        if job is not None and paths:
            given["data.source"] = paths
        if job is None and run_dir is None and not isinstance(data, (str, os.PathLike, list, tuple)):
            raise ValueError("data in memory need a run_dir, because no file gives the run its name")
        flags = [flag for key, value in given.items() for flag in ("--set", f"{key}={_toml(value)}")]
        command = [program("downpour"), "train", *arguments, *flags, "--log-format", "json"]
        summary = _run(command + (["--fresh"] if fresh else []), list(callbacks), verbose)
    model = Model.load(summary["run_dir"])
    model.summary = summary
    return model


@contextlib.contextmanager
def _paths_of(data: Any) -> Iterator[list[str]]:
    """The paths of data files. Data in memory become a file that exists as long as the context."""
    if data is None:
        yield []
    elif isinstance(data, (str, os.PathLike)):
        yield [os.path.abspath(data)]
    elif isinstance(data, (list, tuple)):
        yield [os.path.abspath(path) for path in data]
    else:
        import pyarrow as pa

        from . import _files

        table = data if isinstance(data, pa.Table) else pa.Table.from_pandas(data, preserve_index=False)
        with tempfile.TemporaryDirectory(prefix="downpour-") as folder:
            path = pathlib.Path(folder) / "data.csv"
            _files.write([("data", batch) for batch in table.to_batches()], path)
            yield [str(path)]


def _run(command: list[str], callbacks: list[Callback], verbose: bool) -> dict[str, Any]:
    """Runs the program and returns its summary. Ctrl-C reaches it, too, and it then ends with a checkpoint."""
    error: dict[str, Any] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                event = _event(line)
                if verbose and event.get("event") != "progress":
                    print(line, end="", flush=True)
                if event.get("event") == "error":
                    error = event
                elif line.startswith("error: "):  # of the flags
                    error = {"what": line.removeprefix("error: ").strip()}
                if event and any([bool(callback(event)) for callback in callbacks]):
                    process.send_signal(signal.SIGINT)
            out = process.stdout.read()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    lines = out.splitlines()
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
