"""What a request is told when Kafka does not answer, or refuses."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from fencepost.cluster.errors import ConflictError, NotFoundError, OperationError, RequestTimeoutError
from fencepost.cluster.topic_records import LetterQuery
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError, ReadTimeoutError
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.cluster import WorkerGroup
from fencepost.worker.operation.connector.connectors import Connectors
from fencepost.worker.operation.connector.dead_letters import DeadLetters
from fencepost.worker.operation.request import Requests
from fencepost.worker.plan import refusal_of_change
from fencepost.worker.state import Progress

SNAPSHOT = ClusterSnapshot(connectors={"c": {"name": "c", "connector.class": "FileStreamSource"}})


class Operations(NamedTuple):
    connectors: Connectors
    cluster: WorkerGroup


def operations(error: Exception, reads_before_it: int = 0) -> Operations:
    """Return those of a worker that leads, and whose Kafka answers `reads_before_it` reads of the config topic."""
    left = [None] * reads_before_it

    def ask(*_: Any) -> ClusterSnapshot:
        if left:
            left.pop()
            return SNAPSHOT
        raise error

    def write(*_: Any) -> None:
        raise error

    topic: Any = SimpleNamespace(snapshot=SNAPSHOT, read_to_end=ask)
    peers: Any = SimpleNamespace(leader_url=lambda: "http://w:1")
    membership: Any = SimpleNamespace(leader=SimpleNamespace(is_leading=True), peers=peers)
    writer: Any = SimpleNamespace(write=write)
    unused: Any = None
    requests = Requests("http://w:1", topic, membership, Progress())
    connectors = Connectors(requests, unused, unused, writer, unused, unused, unused)
    return Operations(connectors, WorkerGroup(requests, peers, writer, unused, unused))


REQUESTS = {
    "pause": (lambda o: o.connectors.pause("c"), "writing target state PAUSED for connector c"),
    "resume": (lambda o: o.connectors.resume("c"), "writing target state STARTED for connector c"),
    "level": (lambda o: o.cluster.set_log_level("a.b", "DEBUG"), "writing the level of logger a.b"),
    "patch": (lambda o: o.connectors.patch_config("c", {"a": "b"}), "reading to the end of the config topic"),
}


@pytest.mark.parametrize("error", [KafkaUnavailableError("no broker"), ReadTimeoutError("a transaction stays open")])
@pytest.mark.parametrize("request_name", REQUESTS)
def test_request_that_times_out_in_kafka_names_its_stage(request_name: str, error: Exception) -> None:
    act, stage = REQUESTS[request_name]
    with pytest.raises(RequestTimeoutError, match=f"^Request timed out. The worker is currently {stage}, which began"):
        act(operations(error))


@pytest.mark.parametrize("request_name", REQUESTS)
def test_missing_right_is_named(request_name: str) -> None:
    act, _ = REQUESTS[request_name]
    with pytest.raises(OperationError, match=r"^Write on topic configs$"):
        act(operations(KafkaAuthorizationError("Write on topic configs")))


def test_slow_pages_of_dead_letters_occupy_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.worker.operation.connector.topic_records._ROOM_S", 0.01)
    unused: Any = None
    topic: Any = SimpleNamespace(snapshot=SNAPSHOT)
    membership: Any = SimpleNamespace(leader=unused, peers=unused)
    settings: Any = SimpleNamespace(config=unused)
    dead_letters = DeadLetters(Requests("http://w:1", topic, membership, Progress()), settings, unused)
    with ExitStack() as pages:
        for _ in range(4):
            pages.enter_context(dead_letters._room.held())
        with pytest.raises(ConflictError, match="is reading 4 other pages"):
            dead_letters.read("c", LetterQuery())
    with pytest.raises(NotFoundError):
        dead_letters.read("unknown", LetterQuery())


MIRROR = {
    "name": "m",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}


@pytest.mark.parametrize("types", [("Source", "Sink"), ("Sink", "Source")])
def test_mirror_cannot_be_changed_to_another_mirror_class(types: tuple[str, str]) -> None:
    before, after = ({**MIRROR, "connector.class": f"Mirror{each}Connector"} for each in types)
    refusal = refusal_of_change(before, after) or ""
    assert f"Mirror{types[1]}Connector keeps its positions elsewhere than Mirror{types[0]}Connector" in refusal
    assert "fencepost mirror migrate" in refusal


def test_class_of_a_connector_that_is_no_mirror_can_be_changed() -> None:
    for before in ("MirrorHeartbeatConnector", "FileStreamSource", "MirrorSinkConnector", "NotHere", None):
        assert refusal_of_change({"connector.class": before}, {"connector.class": "MirrorSinkConnector"}) is None
    assert refusal_of_change({}, {"connector.class": "MirrorSourceConnector"}) is None
    assert refusal_of_change({"connector.class": "MirrorSourceConnector"}, {"connector.class": "NotHere"}) is None
