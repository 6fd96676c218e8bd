"""What an executor tells of the error that ended a split's run."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from fencepost.api import FatalError, FencedError, RetriableError
from fencepost.spark.row.csv_objects import LeftToSparkError
from fencepost.spark.split.run import ChannelRun
from fencepost.task.channel.client import SplitClient
from fencepost.task.channel.split_message import SplitRun
from fencepost.transaction import CommitUnknownError, ProduceError, WriterFencedError, WriterOpenError

LOST = ProduceError("a connection was lost", is_refused=False)


class Client:
    def __init__(self, transactional_id: str | None = "id", rows_per_commit: int = 0) -> None:
        conf = {"transaction.timeout.ms": 60_000}
        self.run = SplitRun("r", conf, "t", "o", (b"k",), transactional_id, rows_per_commit)
        self.told: list[str] = []

    def spec(self) -> SplitRun:
        return self.run

    def expired(self, after_s: float) -> None:
        self.told.append("expired")

    def temporary_failure(self, reason: str) -> None:
        self.told.append("trouble")


class Batch:
    class schema:  # noqa: N801 - as Arrow calls it
        names = ("value",)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Returns what is told of an error that comes so long after the first rows."""

    def told(error: Exception, after_s: float = 1.0, **how: Any) -> list[str]:
        client, clock = Client(**how), [100.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        run = ChannelRun(cast(SplitClient, client))
        with contextlib.suppress(type(error)), run.telling():
            run.without_split(Batch())
            clock[0] += after_s
            raise error
        return client.told

    return told


@pytest.mark.parametrize(
    "error",
    [
        LOST,
        CommitUnknownError("a connection was lost"),
        RetriableError("it is away"),
        WriterOpenError("it is away", is_passing=True),
    ],
)
def test_passing_failure_is_reported_only_with_a_transaction(told: Callable[..., list[str]], error: Exception) -> None:
    assert told(error) == ["trouble"]
    assert told(error, transactional_id=None) == [], "it would be written again and again"


@pytest.mark.parametrize(
    "error",
    [
        ProduceError("too large", is_refused=True),
        WriterOpenError("denied", is_passing=False),
        WriterFencedError("somebody newer"),
        FencedError("not admitted"),
        FatalError("something else"),
        LeftToSparkError("there are quotes"),
        OSError("a file cannot be read"),
    ],
)
def test_lasting_failure_is_not_reported_as_trouble(told: Callable[..., list[str]], error: Exception) -> None:
    assert told(error) == []


def test_expired_transaction_is_reported_when_the_writer_says_so(told: Callable[..., list[str]]) -> None:
    for parts in (0, 5):
        assert told(WriterFencedError("fenced", has_expired=True), rows_per_commit=parts) == ["expired"]
        assert told(CommitUnknownError("lost", has_expired=True), rows_per_commit=parts) == ["expired"]


def test_late_broker_failure_is_not_reported_as_an_expired_transaction(told: Callable[..., list[str]]) -> None:
    """Silent brokers are noticed after a minute, which is what a transaction may take, too."""
    for error in (LOST, CommitUnknownError("lost"), ProduceError("timed out", is_refused=False)):
        assert told(error, after_s=600.0) == ["trouble"], error
    assert told(ProduceError("too large", is_refused=True), after_s=600.0) == []
    assert told(WriterFencedError("somebody newer"), after_s=600.0) == []


def test_step_commits_its_own_offset_and_tombstones() -> None:
    client = Client()
    client.run = replace(client.run, offset={"id": 17}, forget=(b"old",))
    run = ChannelRun(cast(SplitClient, client))
    assert list(run.offset_records({"done": True, "rows": 3})) == [(b"k", b'{"id":17}'), (b"old", None)]
