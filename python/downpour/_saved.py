"""python.json: what the folder of a saved model has for the class Model only, such as the labels."""

from __future__ import annotations

import hashlib
import json
import pathlib
from typing import Any, Mapping

__all__ = ["check_storable", "read_extras", "write_extras"]

_NAME = "python.json"


def check_storable(extras: Mapping[str, Any]) -> None:
    """Raises TypeError if the labels are of a type that JSON can't store."""
    try:
        json.dumps(extras)
    except TypeError as error:
        raise TypeError("only labels that are texts, numbers or booleans can be saved; pickle the model") from error


def write_extras(folder: pathlib.Path, extras: Mapping[str, Any]) -> None:
    (folder / _NAME).write_text(json.dumps({**extras, "run": _run_id(folder)}))


def read_extras(folder: pathlib.Path) -> dict[str, Any]:
    """Returns what write_extras() has written for the run in the folder; nothing if that was for another run."""
    path = folder / _NAME
    extras = json.loads(path.read_text()) if path.exists() else {}
    return extras if extras.get("run") in (None, _run_id(folder)) else {}


def _run_id(folder: pathlib.Path) -> str:
    """Returns a digest that identifies the run in the folder."""
    return hashlib.blake2b((folder / "run").read_bytes(), digest_size=16).hexdigest()
