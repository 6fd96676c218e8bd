"""A loop that runs ahead of its commits, over lanes whose writers do what a test tells them."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.api import RetriableError, SourceRecord, SourceTask
from fencepost.hook.mirror import MirrorTask
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.task.control import Control
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.delivery.finish import Finish
from fencepost.task.delivery.lane import EarlierTransactionError, QueueLimits, Turn
from fencepost.task.delivery.lanes import LanedDelivery, TransactionSize
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.testing import eventually
from fencepost.transaction import CommitUnknownError, ProduceError
from support.no_exception import no_exceptions
from support.source_stage import SourceStage, records


class Writer:
    """A `TransactionalWriter` that sends nothing."""

    def __init__(self) -> None:
        self.is_in_transaction = self.is_struck = self.is_closed = False
        self.on_flush: Callable[[], object] = lambda: None
        self.on_commit: Callable[[], object] = lambda: None
        self.values: list[bytes | None] = []

    def send_columns(self, topics: Any, values: Sequence[bytes | None], keys: Any) -> None:
        self.is_in_transaction = True
        self.values += values

    def flush(self) -> None:
        self.on_flush()

    def commit(self) -> None:
        if self.is_closed:
            raise RuntimeError("closed")
        self.on_commit()
        self.is_in_transaction = False

    def abort(self) -> None:
        self.is_in_transaction = False

    def close(self) -> None:
        self.is_closed = True


class Script(SourceTask):
    """Each entry of the script is called by a `poll`; then the task is stopped."""

    def __init__(
        self, script: list[Callable[[], list[SourceRecord] | None]], control: Control, on_told: Callable[[], object]
    ) -> None:
        self.script = script
        self.control = control
        self.on_told = on_told

    def commit(self) -> None:
        self.on_told()

    def poll(self) -> list[SourceRecord] | None:
        if self.script:
            return self.script.pop(0)()
        self.control.stop()
        return None


class LateScript(Script, MirrorTask):
    polls_late = True


class Stage(SourceStage):
    """A loop with two lanes: the first transaction is `first`'s, the next `second`'s."""

    def __init__(self, sizes: TransactionSize | None = None, queued_bytes: int = 10_000) -> None:
        super().__init__()
        self.first, self.second = Writer(), Writer()
        self.failures = threading.Semaphore(0)
        self.replaced = 0
        self.on_told: Callable[[], object] = lambda: None
        self.delivery = LanedDelivery(
            [self.first, self.second],  # type: ignore[list-item]
            "offsets",
            limits=QueueLimits(queued_bytes, 100, 60.0),
            on_failure=self.failures.release,
            sizes=sizes,
        )

    def run(self, *script: Callable[[], list[SourceRecord] | None], kind: type[Script] = Script) -> None:
        try:
            self.loop(kind(list(script), self.control, self.on_told), runs_ahead=True).run(self.delivery)
        finally:
            self.delivery.close()

    def replace(self) -> Delivery:
        self.replaced += 1
        return LanedDelivery([Writer(), Writer()], "offsets", on_failure=self.failures.release)  # type: ignore[list-item]


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_failed_commit_is_raised_before_a_struck_delivery_is_replaced() -> None:
    """E1: what the second transaction held would be lost, and the position would go on without it."""
    stage = Stage()
    may_end = threading.Event()

    def commit_with_a_strike() -> None:
        may_end.wait(60)
        stage.first.is_struck = True

    def third() -> list[SourceRecord]:
        assert stage.failures.acquire(timeout=60)  # the second has failed
        may_end.set()
        eventually(lambda: stage.delivery.must_be_replaced, within_s=60)
        return records("c")

    stage.first.on_commit = commit_with_a_strike
    stage.second.on_flush = raising(ProduceError("time is up", is_refused=False))
    with pytest.raises(ProduceError, match="time is up"):
        stage.run(lambda: records("a"), lambda: records("b"), third)
    assert stage.replaced == 0
    assert stage.book.all_committed() == [({"f": 1}, {"at": "a"})]
    assert (stage.counters.commits, stage.counters.commit_failures) == (1, 1)


def test_pause_does_not_begin_after_a_failed_commit() -> None:
    stage = Stage()
    may_end = threading.Event()

    def pause() -> None:
        stage.control.pause()
        threading.Timer(0.05, may_end.set).start()  # the loop waits for both by then

    stage.first.on_commit = lambda: may_end.wait(60)
    stage.second.on_flush = raising(ProduceError("time is up", is_refused=False))
    with pytest.raises(ProduceError, match="time is up"):
        stage.run(lambda: records("a"), lambda: records("b"), pause)
    assert stage.control.is_paused


def test_transaction_error_is_raised_even_if_the_next_one_sees_it_first() -> None:
    """Else a record that the broker refuses would be sent again and again, instead of failing the task."""
    stage = Stage()

    def third() -> list[SourceRecord]:
        assert stage.failures.acquire(timeout=60)
        assert stage.failures.acquire(timeout=60)
        return records("c")

    may_fail = threading.Event()

    def refuse() -> None:
        may_fail.wait(60)
        raise ProduceError("too large", is_refused=True)

    def second() -> list[SourceRecord]:
        threading.Timer(0.05, may_fail.set).start()
        return records("b")

    stage.first.on_flush = refuse
    with pytest.raises(ProduceError, match="too large"):
        stage.run(lambda: records("a"), second, third)
    assert stage.counters.commit_failures == 1
    assert stage.counters.active.records == 0


def test_expired_transaction_shrinks_the_next_transactions_once() -> None:
    """After an error the loop asks a second time how commits have ended."""
    sizes = TransactionSize(timeout_s=0.001)
    stage = Stage(sizes)
    expected = sizes.limit_bytes // 4

    def expire() -> None:
        time.sleep(0.002)
        raise ProduceError("time is up", is_refused=False, has_expired=True)

    def second() -> None:
        assert stage.failures.acquire(timeout=60)

    stage.first.on_flush = expire
    with pytest.raises(ProduceError, match="time is up"):
        stage.run(lambda: records("x" * (4 * expected // 2)), second)  # and as much beside: its offset
    assert (sizes.limit_bytes, sizes.is_at_end) == (expected, False)


def test_transactions_expired_together_shrink_the_next_ones_once() -> None:
    sizes = TransactionSize(timeout_s=0.001)
    stage = Stage(sizes, queued_bytes=2 * sizes.limit_bytes)
    expected, may_fail = sizes.limit_bytes // 4, threading.Event()

    def expire(*_: object) -> None:
        time.sleep(0.002)
        may_fail.wait(60)
        raise ProduceError("time is up", is_refused=False, has_expired=True)

    def expire_at_once(*_: object) -> None:
        may_fail.set()
        expire()

    large = OutgoingColumns(["t"], [bytes(sizes.limit_bytes)])
    stage.first.on_flush = expire
    stage.second.send_columns = expire_at_once  # type: ignore[method-assign]
    stage.delivery.send(large)
    stage.delivery.commit(())
    with pytest.raises(ProduceError):
        stage.delivery.send(large)
    with pytest.raises(ProduceError):
        stage.delivery.finished(wait=True)
    stage.delivery.close()
    assert (sizes.limit_bytes, sizes.is_at_end) == (expected, False)


def test_poll_error_is_raised_even_while_a_commit_is_under_way() -> None:
    stage = Stage()
    may_end = threading.Event()

    def broken() -> list[SourceRecord]:
        may_end.set()
        raise ValueError("broken")

    stage.first.on_commit = lambda: may_end.wait(60)
    with pytest.raises(ValueError, match="broken"):
        stage.run(lambda: records("a"), broken)
    assert stage.book.all_committed() == [({"f": 1}, {"at": "a"})]
    assert stage.counters.commits == 1


def test_commit_is_not_called_while_a_commit_is_under_way() -> None:
    """An empty poll has nothing to commit, and the author may take what it is told for the batch before."""
    stage = Stage()
    told: list[str] = []
    may_end = threading.Event()

    def commit() -> None:
        may_end.wait(60)
        told.append("committed")

    stage.first.on_commit = commit
    stage.on_told = lambda: told.append("told")

    def empty() -> None:
        may_end.set()
        eventually(lambda: "committed" in told, within_s=60)

    stage.run(lambda: records("a"), lambda: None, empty)
    assert told[:2] == ["committed", "told"]


def test_commit_time_excludes_the_poll_before_its_request() -> None:
    stage = Stage()
    polled_for_s: list[float] = []

    def slow() -> None:
        begun = time.monotonic()
        stage.control.wait(0.3)
        polled_for_s.append(time.monotonic() - begun)

    stage.run(lambda: records("a"), slow)
    assert stage.counters.commits == 1
    assert stage.counters.commit_time_max_s < polled_for_s[0]


def test_transaction_of_a_closed_delivery_does_not_wait_for_ever() -> None:
    """An abandoned task comes back between the last record and the commit: its thread must not wait for ever."""
    stage = Stage()
    stage.delivery.send(OutgoingColumns(["t"], [b"1"]))
    stage.delivery.commit(())
    assert stage.delivery.finished(wait=True)
    stage.delivery.send(OutgoingColumns(["t"], [b"2"]))
    stage.delivery.close()
    stage.delivery.commit(())
    waiting = threading.Thread(target=stage.delivery.abort, daemon=True)
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()
    with pytest.raises(RuntimeError, match="closed"):
        stage.delivery.finished(wait=True)


def test_unknown_commit_prevents_the_next_commit() -> None:
    """E6"""
    stage = Stage()
    stage.first.on_commit = raising(CommitUnknownError("nobody knows"))
    committed: list[str] = []
    stage.second.on_commit = lambda: committed.append("second")
    with pytest.raises(CommitUnknownError):
        stage.run(lambda: records("a"), lambda: records("b"))
    assert committed == []


def test_delivery_beyond_the_limit_does_not_request_another_lane() -> None:
    writer = Writer()
    may_end = threading.Semaphore(0)
    writer.on_commit = lambda: may_end.acquire(timeout=60)
    delivery = LanedDelivery([writer], "offsets", widens_below=1_000, on_failure=lambda: None)  # type: ignore[list-item]
    delivery.widening.below_bytes = 0
    for _ in range(5):
        delivery.send(OutgoingColumns(["t"], [b"1"]))
        delivery.commit(())
        threading.Timer(0.01, may_end.release).start()
        assert delivery.is_ready()
    delivery.close()


def test_lane_without_a_thread_commits_in_the_thread_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stage = Stage()
    committed: list[str] = []
    stage.first.on_commit = lambda: committed.append("first")
    stage.second.on_commit = lambda: committed.append("second")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for value in (b"1", b"2", b"3"):
        stage.delivery.send(OutgoingColumns(["t"], [value]))
        assert stage.delivery.commit(())
    assert committed == ["first", "second", "first"]
    assert len(stage.delivery.finished(wait=True)) == 3
    stage.delivery.abort()
    stage.delivery.close()


def test_a_back_off_is_not_cut_short_by_news_of_a_commit() -> None:
    control = Control(is_paused=False)
    control.wake()
    begun = time.monotonic()
    control.back_off(0.05)
    assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize("timeout_ms", [10_000, 60_000, 301_001, 900_000, 2_147_483_647])
def test_producer_accepts_any_transaction_timeout(timeout_ms: int) -> None:
    conf = dict(transactional_conf({"transaction.timeout.ms": str(timeout_ms)}, "id").conf)
    QueueLimits.made_in(conf)
    Producer(conf)


def test_buffer_limits_stay_within_those_of_the_client() -> None:
    conf: dict[str, Any] = {
        "transaction.timeout.ms": "3600000",
        "batch.num.messages": "10",
        "queue.buffering.max.kbytes": "1000",
        "queue.buffering.max.messages": "100",
    }
    limits = QueueLimits.made_in(conf)
    assert conf["linger.ms"] == 299_000
    assert limits == QueueLimits(512_000, 10, 298.0)
    assert conf["batch.size"] == 512_000


@pytest.mark.parametrize(("kind", "is_early"), [(Script, True), (LateScript, False)])
def test_late_polling_task_is_polled_once_a_transaction_can_begin(kind: type[Script], is_early: bool) -> None:
    stage = Stage()
    may_end = threading.Event()
    was_committing: list[bool] = []

    def second() -> list[SourceRecord]:
        if not is_early:
            threading.Timer(0.05, may_end.set).start()
        return records("b")

    def third() -> list[SourceRecord]:
        was_committing.append(stage.first.is_in_transaction)
        may_end.set()
        return records("c")

    stage.first.on_commit = lambda: may_end.wait(60)
    stage.run(lambda: records("a"), second, third, kind=kind)
    assert was_committing == [is_early]
    assert stage.counters.commits == 3


def test_transaction_is_not_committed_when_its_check_raises() -> None:
    """Its records are flushed by then, and so may be those of the next transaction, which fails with it."""

    def fails() -> None:
        raise RetriableError("t: created again")

    first, second = Writer(), Writer()
    commits: list[Writer] = []
    for writer in (first, second):
        writer.on_commit = lambda writer=writer: commits.append(writer)  # type: ignore[misc]
    turn = Turn(first, None, finish=Finish(check=fails))  # type: ignore[arg-type]
    turn.run()
    after = Turn(second, turn)  # type: ignore[arg-type]
    after.run()
    assert str(turn.error) == "t: created again"
    assert isinstance(after.error, EarlierTransactionError)
    assert commits == []


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_transaction_is_not_committed_when_its_end_raises_a_base_exception(error: BaseException) -> None:
    """`MirrorTask.closing` runs in the lane's thread."""

    def fails() -> None:
        raise error

    writer = Writer()
    writer.on_flush = fails
    turn = Turn(writer, None)  # type: ignore[arg-type]
    turn.run()
    assert not turn.is_committed
    assert turn.error is error
