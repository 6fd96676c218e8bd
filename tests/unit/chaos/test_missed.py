"""Which victims a fault may miss, and how many."""

import pytest

from support.chaos.missed import Missed
from support.cluster import LightWorker

READY = "slot s-1 is ready (pid 41)\nslot s-2 is ready (pid 42)\n"


@pytest.fixture
def worker(tmp_path):
    return LightWorker("127.0.0.1:1", tmp_path)


@pytest.mark.parametrize(
    "said", ["slot s-2 has been silent for longer than its lease", "slot s-2 leaves: it cannot reach its worker"]
)
def test_missed_victim_of_a_stuck_slot_counts_against_the_limit(worker, said):
    worker.log.write_text(f"{READY}{said}\n")
    missed = Missed(worker, at_once=1)
    missed.add(42, "sink, put before")
    missed.check(struck=0)
    missed.add(42, "sink, put before")
    with pytest.raises(AssertionError, match="2 victims were missed, and 5 hit"):
        missed.check(struck=5)
    missed.check(struck=18)


def test_missed_victim_that_ended_by_itself_is_a_failure(worker):
    worker.log.write_text(f"{READY}slot s-1 has been silent for longer than its lease\n")
    with pytest.raises(AssertionError, match="sink, put before ended by itself"):
        Missed(worker, at_once=1).add(42, "sink, put before", within_s=0.1)
