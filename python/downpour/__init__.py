"""Downpour: models for tables and sparse data, trained in this process or on a cluster of parameter servers."""

from . import _library
from ._client import Bag, Batch, Client
from ._library import DownpourError
from ._model import Model
from ._programs import train

__all__ = ["Bag", "Batch", "Client", "DownpourError", "Model", "__version__", "train", "version"]


def version() -> str:
    """Returns the version of the library."""
    return _library.library().dp_version().decode()


def __getattr__(name: str):
    if name == "__version__":
        return version()
    if name in ("DownpourClassifier", "DownpourRegressor"):
        from . import sklearn

        return getattr(sklearn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
