"""Which clusters a round of fencing reaches when a connector is moved from one to another."""

from collections.abc import Mapping

import pytest

from fencepost.cluster.command import (
    LeaderCommand,
    PutConnector,
    PutTaskConfigs,
    RecordTaskCount,
    RemoveConnector,
    StopConnector,
)
from fencepost.cluster.fencing import configs_to_fence, is_covered, plan_fencing, servers_of, targets
from fencepost.storage import records
from fencepost.storage.fold import apply
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder

SERVERS = "producer.override.bootstrap.servers"
OWN: dict[str, str | None] = {"name": "c"}
A = {**OWN, SERVERS: "a:1", "producer.override.sasl.jaas.config": "of a"}
B = {**OWN, SERVERS: "b:1"}


class Topic:
    """A config topic in memory, which can be compacted and read anew."""

    def __init__(self) -> None:
        self.log: list[records.Encoded] = []
        self.snapshot = ClusterSnapshot()

    def do(self, command: LeaderCommand) -> None:
        self.log += command.decide(self.snapshot)
        self.read()

    def read(self) -> None:
        builder = SnapshotBuilder()
        for offset, (key, value) in enumerate(self.log):
            apply(builder, offset, key, value)
        self.snapshot = builder.freeze()

    def compact(self) -> None:
        last = {key: n for n, (key, _) in enumerate(self.log)}
        self.log = [(key, value) for n, (key, value) in enumerate(self.log) if last[key] == n and value is not None]
        self.read()

    def put(self, config: Mapping[str, str | None], tasks: int = 1, *, publishes: bool = True) -> None:
        self.do(PutConnector("c", config))
        if publishes:
            self.do(PutTaskConfigs("c", [{"n": str(n)} for n in range(tasks)], is_exactly_once=True))

    def count(self) -> None:
        self.do(RecordTaskCount("c", self.snapshot.task_counts["c"], self.snapshot.commit_offsets["c"]))

    def servers(self) -> list[str | None]:
        """Return where a round would fence now."""
        assert plan_fencing(self.snapshot, "g", "c").transactional_ids
        return [next(iter(s)) if (s := servers_of(config)) else None for config in configs_to_fence(self.snapshot, "c")]


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.mark.parametrize(
    ("before", "after", "servers"),
    [
        (OWN, B, ["b:1", None]),
        (A, B, ["b:1", "a:1"]),
        (A, OWN, [None, "a:1"]),
    ],
)
@pytest.mark.parametrize("compacts", [False, True])
def test_fencing_round_targets_the_clusters_of_the_older_generation(
    topic: Topic,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    servers: list[str | None],
    compacts: bool,
) -> None:
    """With one task before and after, no fence is needed as long as the cluster stays the same."""
    topic.put(before)
    assert topic.snapshot.is_ready("c")
    topic.put(after, publishes=False)
    if compacts:  # and a leader that knows nothing else
        topic.compact()
    topic.put(after)
    if compacts:
        topic.compact()
    assert topic.servers() == servers
    topic.count()
    assert topic.snapshot.is_ready("c")
    assert [servers_of(target) for target in targets(topic.snapshot, "c")] == [servers_of(after)]


def test_older_cluster_is_fenced_with_its_own_client_settings(topic: Topic) -> None:
    topic.put(A)
    topic.put(B)
    assert configs_to_fence(topic.snapshot, "c")[1]["producer.override.sasl.jaas.config"] == "of a"


def test_every_former_cluster_is_fenced_until_a_round_succeeds(topic: Topic) -> None:
    for config in (OWN, A, B):
        topic.put(config, 2)
    assert topic.servers() == ["b:1", None, "a:1"]


@pytest.mark.parametrize("ends", [StopConnector("c"), RemoveConnector("c")])
def test_stopped_or_deleted_tasks_are_fenced_on_their_former_cluster(topic: Topic, ends: LeaderCommand) -> None:
    topic.put(OWN)
    topic.put(A, publishes=False)
    topic.do(ends)
    topic.compact()
    topic.do(PutConnector("c", B))
    topic.log.append(records.target_state_removed("c"))
    topic.read()
    topic.put(B)
    assert set(topic.servers()) == {None, "b:1"}


def test_task_start_waits_for_task_configs_of_its_new_cluster(topic: Topic) -> None:
    topic.put(A)
    assert is_covered(topic.snapshot, "c")
    topic.put({**A, "batch.size": "1"}, publishes=False)
    assert is_covered(topic.snapshot, "c")
    topic.put(B, publishes=False)
    assert not is_covered(topic.snapshot, "c")
    topic.put(B)
    assert is_covered(topic.snapshot, "c")


def test_connectors_that_stay_on_the_workers_cluster_have_no_target_record(topic: Topic) -> None:
    topic.put(OWN, 2)
    topic.put({**OWN, "producer.override.linger.ms": "5"}, 3)
    topic.count()
    assert not [key for key, _ in topic.log if key.startswith(b"fencepost-targets-")]
