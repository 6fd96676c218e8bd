"""How much libraries log. Apart from `logs`, which takes longer to import than a slot has."""

import logging

_LEVELS = dict.fromkeys(("py4j", "kafka", "httpx", "fencepost.rest.access"), logging.WARNING)
_LEVELS |= {"kafka.net.selector": logging.ERROR}  # warns of a machine that is busy


def quiet_libraries() -> None:
    """Have them log no more than what somebody has to know of."""
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
