"""How a round of fencing ends for whoever asked: done, to be asked for again, or refused for good."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.cluster import rounds
from fencepost.cluster.errors import (
    BadRequestError,
    ConflictError,
    FencingRefusedError,
    NotFoundError,
    NotLeadingError,
    NotReadyError,
    OperationError,
    WriteFailedError,
)
from fencepost.cluster.rounds import FencingRounds
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.setting.translation import SettingsError
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import WriterOpenError

PENDING = ClusterSnapshot(
    connectors={"c": {"name": "c"}},
    commit_offsets={"c": 7},
    task_counts={"c": 2},
    task_count_records={"c": 2},
    pending_fencing=frozenset({"c"}),
)


class RoundsStage:
    """Each step of a round can be made to fail."""

    def __init__(self) -> None:
        self.recorded: list[Any] = []
        self.is_source = True
        self.waited: list[tuple[str, int | None]] = []
        self.on_read: Callable[[], None] = lambda: None
        self.on_conf: Callable[[], None] = lambda: None
        self.on_fence: Callable[[], None] = lambda: None
        self.on_record: Callable[[], None] = lambda: None
        leader: Any = SimpleNamespace(submit=self._submit)
        self.rounds = FencingRounds("g", leader, self._read, self._conf, self._wait, lambda *_: self.is_source)

    def _wait(self, connector: str, generation: int | None) -> None:
        self.waited.append((connector, generation))

    def _read(self, timeout_s: float) -> ClusterSnapshot:
        self.on_read()
        return PENDING

    def _conf(self, config: Any) -> Any:
        self.on_conf()
        return {}

    def fence(self, *_: Any) -> None:
        self.on_fence()

    def _submit(self, command: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            self.on_record()
            self.recorded.append(command.count)
            done.set_result(None)
        except Exception as error:
            done.set_exception(error)
        return done

    def end(self, connector: str = "c") -> None:
        self.rounds.fence(connector).result(60)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[RoundsStage]:
    own = RoundsStage()
    monkeypatch.setattr(rounds, "fence", own.fence)
    yield own
    own.rounds.stop()


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_fencing_round_records_the_new_task_count(scene: RoundsStage) -> None:
    scene.end()
    assert scene.recorded == [2]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("on_read", ReadTimeoutError("a transaction stays open")),
        ("on_read", KafkaUnavailableError("no broker")),
        ("on_fence", WriterOpenError("no coordinator", is_passing=True)),
        ("on_record", WriteFailedError()),
        ("on_record", TimeoutError()),
    ],
)
def test_fencing_round_can_be_repeated_after_a_temporary_error(scene: RoundsStage, step: str, error: Exception) -> None:
    setattr(scene, step, raising(error))
    with pytest.raises(NotReadyError):
        scene.end()
    setattr(scene, step, lambda: None)
    scene.end()
    assert scene.recorded == [2]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("on_conf", SettingsError({"ssl.truststore.location": "is a Java key store"})),
        ("on_read", KafkaAuthorizationError("no Read on topic configs")),
        ("on_fence", WriterOpenError("no Write on transactional id g-c-0", is_passing=False, is_denied=True)),
        ("on_record", OperationError("The leader is not authorized to write the config topic")),
        ("on_read", ZeroDivisionError("a bug")),
    ],
)
def test_permanent_error_of_a_fencing_round_is_reported_with_its_trace(
    scene: RoundsStage, step: str, error: Exception
) -> None:
    """The caller fails with this error: an endless retry would never show it."""
    setattr(scene, step, raising(error))
    with pytest.raises(FencingRefusedError, match="Traceback") as refused:
        scene.end()
    assert str(error) in str(refused.value)


@pytest.mark.parametrize("error", [ConflictError("newer"), NotLeadingError()])
def test_fencing_round_overtaken_by_new_configs_or_leader_is_a_conflict(
    scene: RoundsStage, error: ConflictError
) -> None:
    scene.on_record = raising(error)
    with pytest.raises(type(error)):
        scene.end()


def test_only_source_connectors_are_fenced(scene: RoundsStage) -> None:
    """The topic also has sinks that Kafka Connect ran; a task count is meaningless for them."""
    scene.is_source = False
    with pytest.raises(BadRequestError, match="Connector c is not a source connector"):
        scene.end()
    with pytest.raises(NotFoundError):
        scene.end("unknown")
    assert scene.recorded == []


def test_pending_and_new_fencing_rounds_fail_when_the_worker_stops(scene: RoundsStage) -> None:
    held: Future[None] = Future()
    scene.on_fence = lambda: held.result(60)
    waiting = scene.rounds.fence("c")
    scene.rounds.stop()
    for each in (waiting, scene.rounds.fence("c")):
        with pytest.raises(NotReadyError, match="shutting down"):
            each.result(60)
    held.set_result(None)


def test_fencing_rounds_of_an_unreachable_cluster_do_not_block_others(scene: RoundsStage) -> None:
    go = threading.Event()

    def away() -> None:
        if threading.current_thread().name != "fencing-c":
            go.wait(60)

    scene.on_read = away
    try:
        for number in range(64):
            scene.rounds.fence(f"away-{number}")
        scene.end("c")
    finally:
        go.set()
