"""Logs failures of single items among many."""

import logging
from collections.abc import Mapping


class WarningLog:
    """Logs each warning once for as long as it lasts."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: dict[str, str] = {}

    def update(self, current: Mapping[str, str]) -> None:
        """Log those of the current warnings, by item (`group a`), that are new or have changed."""
        for what, why in current.items():
            if self._logged.get(what) != why:
                self._log.warning("%s: %s", what, why)
        self._logged = dict(current)
