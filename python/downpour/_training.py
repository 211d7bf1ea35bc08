"""One training in the library: its settings as the library reads them, its length, its threads, and the call."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import re
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from . import _library as c
from ._progress import noting_interrupts
from ._table import Table

#: What a callback gets: "epoch" (from 1), "epochs", "records", "records_per_second", and "history": the lines of
#: Model.history that are new.
Progress = Mapping[str, Any]
Callback = Callable[[Progress], Any]

_FEW_ROWS = 20_000
_ROWS_OF_AN_ID = 100  # with fewer, on average, the model overfits in as many epochs as numbers need


def toml_of(value: Any) -> str:
    """Returns a value as the job file writes it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return repr(value.item() if hasattr(value, "item") else value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_of(each)}" for key, each in value.items()) + " }"
    if not isinstance(value, Iterable):
        raise ValueError(f"a setting has the value {value!r}, which a job can't have; leave it out, or give a number, a text, "
                         "a list or a dict")
    return "[" + ", ".join(toml_of(each) for each in value) + "]"


def set_length(table: Table, columns: int, settings: dict[str, Any]) -> None:
    """Sets the length of a training that no evaluation ends: a fixed number of epochs, in which the learning rate falls
    to 0 along half a cosine. Small data need small batches, to have enough steps. A network learns ids with few records
    each by heart within some epochs; a factorization machine of two columns does not."""
    rows = table.rows
    if rows <= _FEW_ROWS:
        settings.setdefault("train.batch_size", 32 if rows <= _FEW_ROWS / 5 else 128)
    if columns > 2 and table.most_ids() * _ROWS_OF_AN_ID > rows:
        length = 4 if rows <= 100_000 else 2
    else:
        length = 20 if rows <= _FEW_ROWS else 10 if rows <= 1_000_000 else 5
    epochs = settings.setdefault("train.epochs", length)
    batch = max(int(settings.get("train.batch_size", 512 if rows > 100_000 else 256)), 1)
    if not any(key.startswith("optimizer.schedule") for key in settings):
        settings["optimizer.schedule"] = {"type": "cosine", "decay_steps": max(int(epochs) * -(-rows // batch), 1)}


def threads_of(n_jobs: int | None) -> int:
    """Threads for the library; 0: as many as the process may use."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)):
        raise ValueError(f"n_jobs is {n_jobs!r}, but must be an integer or None")
    if n_jobs > 0:
        return n_jobs
    return max(1, len(os.sched_getaffinity(0)) + 1 + n_jobs) if n_jobs < 0 else 1


def job_text(job: str | os.PathLike) -> tuple[bytes, bytes]:
    """Returns the text of a job file, and the folder where its relative paths start."""
    if str(job).endswith(".toml"):
        path = pathlib.Path(job).absolute()
        return path.read_bytes(), str(path.parent).encode()
    return str(job).encode(), os.getcwd().encode()


def target_texts(job: str | os.PathLike, target: str, labels: Callable[[], list[str]]) -> list[str] | None:
    """Returns the texts of the classes in the order of the target's field in a job, if the field is a table, or one line.
    For a field with `positive`, `labels` gives the texts of the data. None: the field has numbers. Raises ValueError for
    labels that are not two with one positive."""
    text = job_text(job)[0].decode(errors="replace") + "\n"
    names = "|".join(map(re.escape, (target, json.dumps(target))))
    table = re.search(rf"^\[data\.fields\.(?:{names})\]\n((?:(?!\[).*\n)*)", text, re.MULTILINE)
    line = re.search(rf"^(?:data\.)?(?:fields\.)?(?:{names}) *= *\{{(.*)\}}", text, re.MULTILINE)
    string = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*')"""
    found = re.search(rf"\b(classes|positive)\s*=\s*\[((?:\s*{string}\s*,?)*)\s*\]", table[1] if table else line[1] if line else "")
    if found is None:
        return None
    texts = [json.loads(each) if each[0] == '"' else each[1:-1] for each in re.findall(string, found[2])]
    if found[1] == "classes":
        return texts
    ordered = sorted(labels(), key=lambda label: label in texts)
    if len(ordered) != 2 or (ordered[0] in texts) == (ordered[1] in texts):
        raise ValueError(f"the job's target has `positive`, so y must have two labels, one of them of {texts}")
    return ordered


def settings_of_weights(job: str | os.PathLike, column: str) -> dict[str, Any]:
    """Returns the settings by which a job with a preset reads weights from a column. Raises ValueError for a job with layers."""
    text = job_text(job)[0].decode(errors="replace")
    if re.search(r"^\s*(\[\[)?(model\.)?layers\b|\blayers\s*=", text, re.MULTILINE):
        raise ValueError('the job has layers, so sample_weight does not apply: add the weights to X as a column, and name it in '
                         'the outputs of the job (weights = "NAME")')
    declares = re.search(r"^\s*(\[data\.fields|data\.fields|fields\s*[.=])", text, re.MULTILINE)
    return {"model.weights": column, **({f"data.fields.{column}.type": "float32"} if declares else {})}


def with_constant_rules(job: str) -> str:
    """Returns a job, as the library prints it, whose rules of the optimizer have a constant rate."""
    rule = r"^(\[\[optimizer\.rules\]\]\n(?:(?!\[).*\n)*?schedule = )\{.*\}"
    return re.sub(rule, r'\1"constant"', job, flags=re.MULTILINE)


class Trained:
    """A trained model of the library. A thread that uses it keeps it alive."""

    def __init__(self, pointer: ctypes.c_void_p):
        self.pointer = pointer

    def __del__(self):
        c.release("dp_model_free", self.pointer)


def train(
    table: Table, settings: Mapping[str, Any], callbacks: list[Callback], threads: int, job: tuple[bytes, bytes | None] | None
) -> Trained:
    """Trains a model on the table. `job` is the text of a job file and the folder of its paths; None: a preset."""
    raised: list[BaseException] = []

    def on_progress(text: bytes, _user: Any) -> int:
        if raised:
            return 1
        try:
            progress = json.loads(text)
            if progress["epochs"] == 0:  # the training has not begun
                return 0
            return int(any([bool(callback(progress)) for callback in callbacks]))
        except BaseException as error:  # raised again below
            raised.append(error)
            return 1

    lines = [f"{key}={toml_of(value)}".encode() for key, value in settings.items()]
    training = c.Training(
        struct_size=ctypes.sizeof(c.Training),
        data=table.handle,
        settings=(ctypes.c_char_p * len(lines))(*lines),
        setting_count=len(lines),
        threads=threads,
        on_progress=c.PROGRESS(on_progress),
    )
    if job is not None:
        training.job, training.folder = job
    handle = ctypes.c_void_p()
    with noting_interrupts(raised):
        code = c.library().dp_train(ctypes.byref(training), ctypes.byref(handle))
    trained = Trained(handle) if code == 0 else None
    if raised:
        raise raised[0]
    c.check(code)
    return trained
