"""The batch client on a broker of Kafka 3.9, which has version 1 of transactions."""

import re

import pytest

from support.old_kafka import old_kafka
from support.own_pytest import run

_SUITE = "tests/conformance/transaction"
_CORE = {
    "test_visibility.py": "batch",
    "test_fencing.py": "batch and e2",
    "test_nothing_twice.py": "1-batch or (lost-batch and not 2-)",
    "test_traps.py": "(asked_again or under_way) and not 2]",
}


@pytest.mark.timeout(900)  # it fetches that Kafka, once a user
def test_core_of_the_suite_passes_with_version_1_on_a_broker_of_kafka_3_9() -> None:
    wanted = " or ".join(f"({name} and ({which}))" for name, which in _CORE.items())
    with old_kafka() as servers:
        code, out = run(servers, [f"{_SUITE}/{name}" for name in _CORE], "-k", wanted)
    assert code == 0, out
    assert re.search(r"^\d{2,} passed", out, re.MULTILINE), out
