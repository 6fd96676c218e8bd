"""Drivers that start while the broker that led everything is cut off, or hangs, and is the first one that they ask.

Such a broker knows an old end of the decisions' topic. A driver that believed it would write its last batch again.
"""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.testing.reader import read_committed
from support.chaos import commit_program
from support.cut_brokers import BROKERS, CutBrokers

TOPIC = "batches"
_WITHIN_S = 240.0


@pytest.fixture
def brokers() -> Iterator[CutBrokers]:
    with CutBrokers(cluster_id="fencepost-tests-stale00") as running:
        Admin({"bootstrap.servers": running.bootstrap_servers}).topics.create(
            TOPIC, partitions=1, replication=len(BROKERS)
        )
        yield running


def commit(brokers: CutBrokers, first: int, number: int, value: str) -> str:
    """Commit a batch in a new process that asks a broker first. Returns whether it was written or skipped."""
    servers = brokers.bootstrap_servers.split(",")
    asked = ",".join(servers[first - 1 :] + servers[: first - 1])
    arguments = [sys.executable, commit_program.__file__, asked, TOPIC, "query", str(number), value]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_decision_is_found_when_its_leader_is_cut_off_or_hangs(brokers: CutBrokers) -> None:
    ill, well = BROKERS[:2]
    assert commit(brokers, well, 0, "0") == "written"
    for number, (hurt, cure) in enumerate(((brokers.cut, brokers.heal), (brokers.hang, brokers.wake)), 1):
        brokers.await_well()
        brokers.place(dict.fromkeys(brokers.leaders_by(well), ill))
        hurt(ill)
        try:
            brokers.await_deposed(ill)
            assert commit(brokers, well, number, str(number)) == "written"
            assert commit(brokers, ill, number, "again") == "skipped"
        finally:
            cure(ill)
    brokers.await_well()
    found = read_committed({"bootstrap.servers": brokers.bootstrap_servers}, TOPIC, _WITHIN_S)
    assert [each.value for each in found] == [b"0", b"1", b"2"]
