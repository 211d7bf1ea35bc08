"""The rows of `tools/verify`: importing this package registers all of them, in the order of the table."""
from . import quality, behaviour, rivals, limits, recovery, simulation, input, autotune, sharding, generators, from_tensorflow  # noqa: F401
from . import hardening_hostile  # noqa: F401
from . import hardening_input  # noqa: F401
