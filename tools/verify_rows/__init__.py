"""The rows of `tools/verify`. Importing this package registers all of them, in the order of the table."""
import importlib
from pathlib import Path

from . import quality, sync, behaviour, rivals, all_reduce, model_speed, limits, recovery, simulation, staleness, input, autotune, sharding, generators, from_tensorflow, serving, estimators  # noqa: F401

for _file in sorted(Path(__file__).parent.glob("hardening_*.py")):
    importlib.import_module(f"{__name__}.{_file.stem}")
