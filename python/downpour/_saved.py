"""python.json: what the folder of a saved model has for the class Model only, such as the labels."""

from __future__ import annotations

import hashlib
import json
import pathlib
from typing import Any, Mapping

from ._library import DownpourError

__all__ = ["check_storable", "read_extras", "write_extras"]

_NAME = "python.json"


def check_storable(extras: Mapping[str, Any]) -> None:
    """Raises TypeError if the labels are of a type that JSON can't store."""
    try:
        json.dumps(extras)
    except TypeError as error:
        raise TypeError("only labels that are texts, numbers or booleans can be saved; pickle the model") from error


def write_extras(folder: pathlib.Path, extras: Mapping[str, Any]) -> None:
    content = {**extras, "run": _run_id(folder)}
    (folder / _NAME).write_text(json.dumps({**content, "checksum": _checksum(content)}))


def read_extras(folder: pathlib.Path) -> dict[str, Any]:
    """Returns what write_extras() has written for the run in the folder; nothing if that was for another run.

    Raises:
        DownpourError: the file is damaged.
    """
    path = folder / _NAME
    if not path.is_file():
        return {}
    try:
        extras = json.loads(path.read_bytes())
        checksum = extras.pop("checksum", None)
        damaged = checksum is not None and checksum != _checksum(extras)
    except (ValueError, AttributeError, TypeError, RecursionError):
        damaged = True
    if damaged:
        raise DownpourError(
            65, "DP-3000", "the labels and names of the model are damaged", str(path), "save the model again"
        )
    return extras if extras.get("run") in (None, _run_id(folder)) else {}


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def _run_id(folder: pathlib.Path) -> str:
    """Returns a digest that identifies the run in the folder."""
    return hashlib.blake2b((folder / "run").read_bytes(), digest_size=16).hexdigest()
