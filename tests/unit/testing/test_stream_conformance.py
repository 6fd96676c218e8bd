"""The conformance class of streams: each check fails for its fault alone, and for no connector without one."""

import threading
import uuid
from typing import Any

import pytest

from fencepost.api import SinkBatch, SinkRecord, StreamConnector, StreamTask, setting
from fencepost.builtin.connector.topic import TopicTransformConnector
from fencepost.testing import StreamConformance
from support.conformance_verdicts import ensure_only, failed

BATCHES = "test_output_does_not_depend_on_batches"
REDELIVERED = "test_redelivered_records_give_the_same_output"
TOPICS = "test_writes_to_no_topic_that_it_reads"
STOPS = "test_stops_in_time"
RECONFIGURATION = "test_survives_reconfiguration"
HANGS_S = 120.0  # in a thread that nobody waits for


class EvenTask(StreamTask["EvenConnector"]):
    """Passes on the even numbers."""

    def process(self, batch: SinkBatch) -> Any:
        even = batch.where([value["n"] % 2 == 0 for value in batch.values])
        return even.to(self.config.target)


class EvenConnector(StreamConnector):
    task: Any = EvenTask
    target: str = setting("target")


class Even(StreamConformance):
    config = {"target": "even"}


class ImpatientEven(Even):
    stops_within_s = 0.4


class TestEven(Even):
    connector = EvenConnector


class TestTopicTransform(StreamConformance):
    connector = TopicTransformConnector
    config = {"output.topic": "${topic}-copy"}


class NumbersInBatch(EvenTask):
    def process(self, batch: SinkBatch) -> Any:
        return batch.to(self.config.target, values=list(range(len(batch))))


class SeesEachOnce(EvenTask):
    def start(self) -> None:
        self.seen: set[int] = set()

    def process(self, batch: SinkBatch) -> Any:
        new = [record for record in batch if record.value["n"] not in self.seen]
        self.seen |= {record.value["n"] for record in new}
        return [record.to(self.config.target) for record in new]


class WritesBack(EvenTask):
    def process(self, batch: SinkBatch) -> Any:
        return batch.to(batch.topics[0])


class WritesNothing(EvenTask):
    def process(self, batch: SinkBatch) -> list[SinkRecord]:
        return []


class Hangs(EvenTask):
    def stop(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            threading.Event().wait(HANGS_S)


class OwnTargets(EvenConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        own = super().task_configs(max_tasks)
        return [one | {"target": f"even-{n}"} for n, one in enumerate(own)] if max_tasks > 1 else own


def _with(task: type[EvenTask]) -> type[EvenConnector]:
    return type(f"With{task.__name__}", (EvenConnector,), {"task": task})


@pytest.mark.parametrize(
    ("made", "check", "said"),
    [
        (_with(NumbersInBatch), BATCHES, "A batch of 5 gives .*, the same records one by one"),
        (_with(SeesEachOnce), REDELIVERED, "The same task that receives the records again gives"),
        (_with(WritesBack), TOPICS, "The task reads testing and writes to it"),
        (_with(WritesNothing), TOPICS, "The task wrote nothing"),
        (_with(Hangs), STOPS, "0.4 s after the task was asked to stop it still runs"),
        (OwnTargets, RECONFIGURATION, "For testing-0, one of 2 tasks gives"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_each_check_fails_for_its_fault_alone(made: type[EvenConnector], check: str, said: str) -> None:
    ensure_only(check, said, ImpatientEven if check == STOPS else Even, made)


def test_unstable_output_fails_all_checks_that_compare_it() -> None:
    class Random(EvenTask):
        def process(self, batch: SinkBatch) -> Any:
            return batch.to(self.config.target, values=[uuid.uuid4().hex for _ in batch])

    class Faulty(Even):
        connector = _with(Random)

    assert set(failed(Faulty)) == {BATCHES, REDELIVERED, RECONFIGURATION}
