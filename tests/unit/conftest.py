"""What the unit tests share: examples are others in each run, and one that takes long fails nothing."""

import os

from hypothesis import HealthCheck, settings

from support.long_form import IS_LONG

settings.register_profile(
    "any machine",
    max_examples=100 if IS_LONG else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="FENCEPOST_SAME_EXAMPLES" in os.environ,
)
settings.load_profile("any machine")
