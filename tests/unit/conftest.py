"""What the unit tests share: an example that takes long on a busy machine fails nothing."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="FENCEPOST_SAME_EXAMPLES" in os.environ,
)
settings.load_profile("any machine")
