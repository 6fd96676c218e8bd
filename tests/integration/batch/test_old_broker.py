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
}
_TRAPS = (
    "test_hundreds_of_requests_can_be_in_flight",
    "test_second_batch_is_built_while_the_first_is_in_flight_and_sent_after_it[1]",
    "test_requests_during_the_end_of_the_previous_transaction_are_repeated[1]",
    "test_offsets_are_sent_while_records_are_in_flight",
)


@pytest.mark.timeout(900)  # it fetches that Kafka, once a user
def test_core_of_the_suite_passes_with_version_1_on_a_broker_of_kafka_3_9() -> None:
    wanted = " or ".join(["test_traps.py", *(f"({name} and ({which}))" for name, which in _CORE.items())])
    tests = [*(f"{_SUITE}/{name}" for name in _CORE), *(f"{_SUITE}/test_traps.py::{name}" for name in _TRAPS)]
    with old_kafka() as servers:
        code, out = run(servers, tests, "-k", wanted)
    assert code == 0, out
    assert re.search(r"^\d{2,} passed", out, re.MULTILINE), out
