"""Debezium reads tables of types × values from a real server, and the envelope must make the same records of them."""

from pathlib import Path

import pytest
from bench.postgres import NoPostgresError

from oracle.debezium_postgres import MODES, cases
from support.debezium_records import Replay, unexpected
from support.long_form import IS_LONG

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]


@pytest.mark.timeout(1800)
def test_debezium_on_this_server_makes_the_same_records(tmp_path: Path) -> None:
    try:
        found = cases(MODES, tmp_path / "debezium.log")
    except NoPostgresError as error:
        pytest.skip(str(error))
    for one in found:
        replay = Replay(one)
        assert unexpected(replay.snapshot())[0] == [], one["mode"]
        assert unexpected(replay.stream())[0] == [], one["mode"]
