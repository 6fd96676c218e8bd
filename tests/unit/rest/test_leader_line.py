"""What a worker asks of a leader elsewhere: over a real socket, with a leader that only takes notes."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from fencepost.cluster.command import PutTaskConfigs
from fencepost.cluster.errors import (
    ConflictError,
    FencingRefusedError,
    NotFoundError,
    NotLeadingError,
    NotReadyError,
    OperationError,
)
from fencepost.cluster.session_key import RequestVerifier
from fencepost.config.reference import RawConfig
from fencepost.kafka.group.group_admin import Group, GroupMember
from fencepost.rest import create_app
from fencepost.rest.server import Endpoint, RestServer
from fencepost.storage.change import SessionKey
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from fencepost.worker.membership.leader_line import LeaderLine, LocalLeader
from fencepost.worker.membership.peers import LateClient, Peers

from .fake import FakeConnector, FakeWorker

OLD, NEW = (SessionKey(letter * 32, "HmacSHA256", 0) for letter in (b"o", b"n"))
HERE = "http://here:1/"


class Leader(FakeWorker):
    """The leader's REST; `failures` come first."""

    def __init__(self) -> None:
        super().__init__()
        self.key = OLD
        self.failures: list[Exception] = []
        self.verifier = RequestVerifier("the-leader", ("HmacSHA256",), lambda: int(time.time() * 1000))
        self.connectors["a/b"] = FakeConnector({"connector.class": "FileStreamSource"})

    def verify(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
        return self.verifier.verify(self.key, method, path, body, headers)

    def fence(self, name: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        super().fence(name)
        self.calls.append(("fence", name))

    def put_task_configs(self, name: str, configs: Any) -> None:
        if self.failures:
            raise self.failures.pop(0)
        super().put_task_configs(name, configs)


class LeaderLineStage:
    """A worker whose cluster is led by `leader`, unless it `leads` itself."""

    def __init__(self, url: str, leader: Leader) -> None:
        self.leader = leader
        self.leads = False
        self.leader_url: str | None = url
        self.key = OLD
        self.known_key = OLD
        self.local: list[object] = []
        self.line = LeaderLine(
            LocalLeader(self, self, is_exactly_once=True),
            Peers(HERE, lambda: self.group(), self, self),
            "HmacSHA256",
            self.read_to_end,
            LateClient(),
        )

    @property
    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(incarnations={self.leader_url or "": "the-leader"}, session_key=self.known_key)

    def read_to_end(self, timeout_s: float) -> ClusterSnapshot:
        self.known_key = self.key
        return self.snapshot

    def group(self) -> Group:
        owned = frozenset({("configs", 0)})
        leading = [] if self.leader_url is None else [GroupMember("m1", self.leader_url, "h", owned)]
        return Group("g", "Stable", (GroupMember("m0", HERE, "h", frozenset()), *leading))

    @property
    def is_leading(self) -> bool:
        return self.leads

    def submit(self, command: PutTaskConfigs) -> "Future[Any]":
        self.local.append(("tasks", command.connector, command.configs))
        return _done()

    def fence(self, connector: str) -> "Future[None]":
        self.local.append(("fence", connector))
        return _done()


def _done() -> "Future[Any]":
    done: Future[Any] = Future()
    done.set_result(None)
    return done


@pytest.fixture
def scene() -> Iterator[LeaderLineStage]:
    leader = Leader()
    server = RestServer(Endpoint(create_app(leader.operations), "127.0.0.1", 0))
    server.start()
    made = LeaderLineStage(f"http://127.0.0.1:{server.port}/", leader)
    yield made
    made.line.stop()
    server.stop(0)


CONFIGS: list[RawConfig] = [{"task.class": "T", "n": None}, {"n": "1"}]


def test_leader_calls_itself_without_a_request(scene: LeaderLineStage) -> None:
    scene.leads = True
    scene.line.put_task_configs("a/b", CONFIGS).result(60)
    scene.line.fence("a/b").result(60)
    assert scene.local == [("tasks", "a/b", CONFIGS), ("fence", "a/b")]
    assert scene.leader.calls == []


def test_follower_sends_signed_requests_to_the_leader(scene: LeaderLineStage) -> None:
    scene.line.put_task_configs("a/b", CONFIGS).result(60)
    scene.line.fence("a/b").result(60)
    assert scene.leader.calls == [("task_configs", "a/b", CONFIGS), ("fence", "a/b")]


def test_a_key_that_was_renewed_is_read_and_the_request_sent_again(scene: LeaderLineStage) -> None:
    scene.leader.key = scene.key = NEW
    scene.line.fence("a/b").result(60)
    assert scene.leader.calls == [("fence", "a/b")]


def _nobody(scene: LeaderLineStage) -> None:
    url, scene.leader_url = scene.leader_url, None
    group, asked = scene.group, []

    def second() -> Group:
        asked.append(1)
        scene.leader_url = url if len(asked) > 1 else None
        return group()

    scene.group = second  # type: ignore[method-assign]


def _dead(scene: LeaderLineStage) -> None:
    url, scene.leader_url = scene.leader_url, "http://127.0.0.1:1/"
    group, asked = scene.group, []

    def second() -> Group:
        asked.append(1)
        scene.leader_url = url if len(asked) > 1 else scene.leader_url
        return group()

    scene.group = second  # type: ignore[method-assign]


def _silent(scene: LeaderLineStage) -> None:
    """A leader that stands still: its port takes what is sent, and nobody ever answers."""
    stopped = socket.create_server(("127.0.0.1", 0))
    url, scene.leader_url = scene.leader_url, f"http://127.0.0.1:{stopped.getsockname()[1]}/"
    group, asked = scene.group, []

    def later() -> Group:
        asked.append(stopped)
        scene.leader_url = url if len(asked) > 1 else scene.leader_url
        return group()

    scene.group = later  # type: ignore[method-assign]


def _fails(error: Exception) -> Callable[[LeaderLineStage], None]:
    return lambda scene: scene.leader.failures.extend([error, error])


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(_nobody, id="nobody-leads"),
        pytest.param(_dead, id="the-leader-is-gone"),
        pytest.param(_silent, id="the-leader-stands-still-and-is-replaced"),
        pytest.param(_fails(NotLeadingError()), id="it-leads-no-more"),
        pytest.param(_fails(NotReadyError("Kafka cannot be reached")), id="its-cause-passes"),
    ],
)
def test_call_of_the_leader_is_retried_after_a_passing_failure(
    scene: LeaderLineStage, trouble: Callable[[LeaderLineStage], None]
) -> None:
    trouble(scene)
    scene.line.fence("a/b").result(60)
    assert scene.leader.calls == [("fence", "a/b")]


@pytest.fixture
def away(scene: LeaderLineStage, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Rounds of connectors `away...`, which do not end: their target cluster is away. Yields what was asked for."""
    release, asked = threading.Event(), list[str]()

    def fence(name: str) -> None:
        asked.append(name)
        assert not name.startswith("away") or release.wait(30)

    monkeypatch.setattr(scene.leader, "fence", fence)
    yield asked
    release.set()


def test_tasks_that_start_together_share_one_fencing_round(scene: LeaderLineStage, away: list[str]) -> None:
    """Each of them would hold a thread of the leader for as long as the round takes."""
    asked = [scene.line.fence("away") for _ in range(32)]
    eventually(lambda: bool(away), within_s=60)
    scene.line.fence("a/b").result(60)
    assert away == ["away", "a/b"]
    assert not any(each.done() for each in asked)


def test_endless_fencing_rounds_do_not_hold_up_other_connectors(scene: LeaderLineStage, away: list[str]) -> None:
    """More of them than a client has connections by default."""
    for number in range(101):
        scene.line.fence(f"away-{number}")
    eventually(lambda: len(away) == 101, within_s=60)
    scene.line.fence("a/b").result(60)


def test_worker_elected_while_it_calls_the_leader_does_the_work_itself(scene: LeaderLineStage) -> None:
    _silent(scene)
    group = scene.group

    def elected() -> Group:
        scene.leads = True
        return group()

    scene.group = elected  # type: ignore[method-assign]
    scene.line.fence("a/b").result(60)
    assert scene.local == [("fence", "a/b")]
    assert scene.leader.calls == []


@pytest.mark.parametrize(
    "error",
    [
        FencingRefusedError("Traceback\nWriterOpenError: not authorized"),
        ConflictError("new task configs were generated"),
        NotFoundError("Unknown connector a/b"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_refusal_of_the_leader_is_raised_unchanged(scene: LeaderLineStage, error: OperationError) -> None:
    scene.leader.failures.append(error)
    with pytest.raises(type(error)) as caught:
        scene.line.fence("a/b").result(60)
    assert caught.value.message == error.message
    assert scene.leader.calls == []
