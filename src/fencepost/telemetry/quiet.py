"""Limits what libraries log. Separate from `logs`, whose import takes too long for a slot."""

import logging

_LEVELS = dict.fromkeys(("py4j", "kafka", "httpx", "httpx2", "fencepost.rest.access"), logging.WARNING)
_LEVELS |= {"kafka.net.selector": logging.ERROR}  # it warns about a busy machine


def quiet_libraries() -> None:
    """Let libraries log only what an operator needs to know."""
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
