"""What goes wrong with some of many, while the others go on."""

import logging
from collections.abc import Mapping


class Troubles:
    """Says each trouble once as long as it lasts."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, str] = {}

    def are(self, now: Mapping[str, str]) -> None:
        """Say what is new among the troubles that there are now, by what has them (`group a`)."""
        for what, why in now.items():
            if self._said.get(what) != why:
                self._log.warning("%s: %s", what, why)
        self._said = dict(now)
