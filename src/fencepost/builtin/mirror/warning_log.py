"""Logs failures of single items among many."""

import logging
from collections.abc import Mapping


class WarningLog:
    """Logs a warning when it is new or has changed, and not again while it lasts."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: dict[str, str] = {}

    def update(self, current: Mapping[str, str]) -> None:
        """Log the current warnings that are new or have changed. Keys are items such as `group a`."""
        for what, why in current.items():
            if self._logged.get(what) != why:
                self._log.warning("%s: %s", what, why)
        self._logged = dict(current)
