"""Where a stream continues after a loss that it tolerates."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read import doubt
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read import source, stream
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.kafka_read.source import Found, KafkaSource

PLACE = TopicPartition("t", 0)
PROGRESS = {"t": {"0": 1000}, "/ids": {"t": "one"}}


class Log(KafkaSource):
    """One log. It says `answers` about its end before the last of them for good."""

    def __init__(self, topic_id: str, *answers: int, committed_end: int | None = None) -> None:
        super().__init__(config())
        self._id, self._answers, self._committed_end = topic_id, list(answers), committed_end

    def look(self) -> Found:
        topic: Any = SimpleNamespace(id=self._id)
        return Found({"t": topic}, frozenset({PLACE}), ())

    def lows(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.highs(places) if self._committed_end is None else dict.fromkeys(places, self._committed_end)

    def highs(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if not places:
            return {}
        return dict.fromkeys(places, self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "answering_admin", Admin)


def config() -> KafkaReadConfig:
    return KafkaReadConfig.of({"kafka.bootstrap.servers": "x:1", "subscribe": "t", "failOnDataLoss": "false"})


def planner(log: KafkaSource, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(doubt, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(source, "sure_ends", lambda ask, wanted: doubt.sure_ends(ask, wanted, 0.2))
    monkeypatch.setattr(stream, "KafkaSource", lambda _: log)
    return stream._Planner(config())


def ranges(planned: Any) -> list[tuple[int, int]]:
    return [(each.value.start, each.value.end) for each in planned]


def test_a_stream_continues_at_the_end_of_a_log_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("one", 990)
    running = planner(log, monkeypatch)
    after = running.next(PROGRESS, is_limited=False)
    assert ranges(running.partitions(PROGRESS, after)) == []
    assert after["t"] == {"0": 990}
    log._answers = [995]
    then = running.next(after, is_limited=False)
    assert ranges(running.partitions(after, then)) == [(990, 995)]


def test_stream_continues_at_its_position_after_one_end_that_was_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    running = planner(Log("one", 990, 1010), monkeypatch)
    assert running.next(PROGRESS, is_limited=False) == PROGRESS
    then = running.next(PROGRESS, is_limited=False)
    assert ranges(running.partitions(PROGRESS, then)) == [(1000, 1010)]


def test_a_stream_waits_at_its_position_when_a_transaction_before_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planner(Log("one", 1010, committed_end=980), monkeypatch).next(PROGRESS, is_limited=False) == PROGRESS


@pytest.mark.parametrize("end", [7, 1500])
def test_stream_reads_a_recreated_topic_from_its_start(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    running = planner(Log("two", end), monkeypatch)
    after = running.next(PROGRESS, is_limited=False)
    assert ranges(running.partitions(PROGRESS, after)) == [(0, end)]
    assert running.next(after, is_limited=False) == after


def test_range_of_a_deleted_topic_is_not_read_from_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was created again while the micro-batch was under way."""
    end = {"t": {"0": 1005}, "/ids": {"t": "one"}}
    assert ranges(planner(Log("two", 1500), monkeypatch).partitions(PROGRESS, end)) == []


def test_truncated_log_is_read_to_its_newest_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The micro-batch is stored as read up to its end: what is left out of it is read never again."""
    running = planner(Log("one", 1080, 1098), monkeypatch)
    assert ranges(running.partitions(PROGRESS, {"t": {"0": 1100}, "/ids": {"t": "one"}})) == [(1000, 1098)]
