"""Modes of a snapshot that are taken, and the one that is refused."""

import pytest

from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.config import ConfigError
from support.postgres_config import MINIMAL


def test_snapshot_modes_of_debezium_are_taken_but_for_the_one_of_each_start() -> None:
    for mode in ("initial", "initial_only", "when_needed", "no_data", "never"):
        SourceSettings(MINIMAL | {"snapshot.mode": mode})
    with pytest.raises(ConfigError, match=r"Invalid value always for configuration snapshot\.mode"):
        SourceSettings(MINIMAL | {"snapshot.mode": "always"})
