"""A cluster of several brokers, each a Kafka process of its own, which can be stopped one by one."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition

from fencepost.embedded.broker import Node, archive_options
from fencepost.embedded.error import PortInUseError
from fencepost.embedded.home import KafkaHome, ensure_home
from fencepost.embedded.java import find_java
from fencepost.embedded.layout import (
    BOOTSTRAP_SNAPSHOT,
    LOOPBACK,
    NodeDirectory,
    Ports,
    choose_ports,
    render,
    server_settings,
)
from fencepost.testing import eventually
from support.quick import QUICK

COORDINATORS = ("__transaction_state", "__consumer_offsets")
"""The topics whose leaders are coordinators, of transactions and of groups."""
IN_SYNC = "min.insync.replicas"

_START_S = 240
_TRIES = 10
_IN_SYNC_S = 240
_CLUSTER_ID = "fencepost-tests-0000000"
_REPLICATED = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


class Brokers:
    """Three nodes, brokers and controllers, so that any one of them can be killed. A context manager; used once."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        count: int = 3,
        home: KafkaHome | None = None,
        cluster_id: str = _CLUSTER_ID,
    ) -> None:
        """Take note of how they are to run: `home` is another Kafka than ours."""
        self._home = home
        self._cluster_id = cluster_id
        self._properties = dict(properties or {})
        self._directory = Path(tempfile.mkdtemp(prefix="fencepost-brokers-"))
        self._ports: dict[int, Ports] = {}
        self._nodes: dict[int, Node] = {}
        self._ids = range(1, count + 1)

    def __enter__(self) -> Self:
        for _ in range(_TRIES - 1):
            try:
                self._start_all()
                return self
            except PortInUseError:  # another process took one between the choice and the start
                self._end_all()
                shutil.rmtree(self._directory)
        self._start_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start_all(self) -> None:
        """Start all nodes, on ports that are free now. Raises the error of one that cannot start."""
        taken: set[int] = set()
        self._ports = {node_id: other_ports(taken) for node_id in self._ids}
        self._before_start(taken)
        with ThreadPoolExecutor(len(self._ids)) as pool:  # none is ready before most of them are there
            starts = {node_id: pool.submit(self._start, node_id) for node_id in self._ids}
        self._nodes = {node_id: start.result() for node_id, start in starts.items() if start.exception() is None}
        for start in starts.values():
            start.result()

    def _before_start(self, taken: set[int]) -> None:
        """Start what nodes need, on ports that are not `taken`; called again where a start is tried again."""

    def _end_all(self) -> None:
        for node_id in list(self._nodes):
            self.kill(node_id, is_last=True)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{LOOPBACK}:{ports.client}" for ports in self._ports.values())

    def kill(self, node_id: int, *, is_last: bool = False) -> None:
        """SIGKILL one, once another broker has what it leads in sync: on a busy machine replicas drop out for a while.

        Where it `is_last` nobody else may have it: then its partitions have no leader until it is started again.
        """
        if not is_last:
            self.await_heirs(node_id)
        self._nodes.pop(node_id).process.kill()

    def await_heirs(self, node_id: int) -> None:
        """Wait until another broker has in sync whatever this one leads."""
        eventually(lambda: not self._only_at(node_id), within_s=_IN_SYNC_S)

    def _only_at(self, node_id: int) -> list[tuple[str, int]]:
        """Return the partitions with several replicas of which no other broker that runs is in sync."""
        others = self._nodes.keys() - {node_id}
        topics = AdminClient({"bootstrap.servers": self.bootstrap_servers}).list_topics(timeout=10).topics
        return [
            (name, partition.id)
            for name, topic in topics.items()
            for partition in topic.partitions.values()
            if len(partition.replicas) > 1 and node_id in partition.isrs and not others & set(partition.isrs)
        ]

    def start(self, node_id: int) -> None:
        """Start one that was killed: it has its data and its ports."""
        self._nodes[node_id] = self._start(node_id)

    def pid(self, node_id: int) -> int:
        """Return the id of a broker's process."""
        return self._nodes[node_id].process.pid

    def restore(self) -> None:
        """Start those that were killed."""
        for node_id in self._ids:
            if node_id not in self._nodes:
                self.start(node_id)

    def lead(self, node_id: int, topic: str, *partitions: int) -> None:
        """Have a broker lead partitions of a topic, all of them where none is named. Each broker has a replica."""
        chosen = partitions or range(self._partitions_of(topic))
        others = [each for each in self._ids if each != node_id]
        wanted = {TopicPartition(topic, partition): [node_id, *others] for partition in chosen}
        admin = KafkaAdminClient(
            bootstrap_servers=self.bootstrap_servers.split(","), request_timeout_ms=60_000, bootstrap_timeout_ms=60_000
        )

        def is_led() -> bool:
            admin.alter_partition_reassignments(wanted)
            admin.elect_leaders(0, {topic: list(chosen)}, raise_errors=False)
            return {self.leader_of(topic, partition) for partition in chosen} == {node_id}

        try:
            eventually(is_led, within_s=120)
        finally:
            admin.close()

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the id of the broker that leads a partition, which is one of those that were not killed."""
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers})

        def leader() -> int | None:
            found: int = client.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader
            return found if found in self._nodes else None

        return eventually(leader, within_s=60) or 0

    def _partitions_of(self, topic: str) -> int:
        return len(
            AdminClient({"bootstrap.servers": self.bootstrap_servers})
            .list_topics(topic, timeout=60)
            .topics[topic]
            .partitions
        )

    def _start(self, node_id: int) -> Node:
        voters = ",".join(f"{each}@{LOOPBACK}:{ports.controller}" for each, ports in self._ports.items())
        return self._run(node_id, self._ports[node_id], {"controller.quorum.voters": voters})

    def _run(self, node_id: int, ports: Ports, own: Mapping[str, str], *, jvm_options: Sequence[str] = ()) -> Node:
        """Start a node with settings of its `own`, from the data that it has."""
        java = find_java()
        home = self._home or ensure_home(java)
        directory = NodeDirectory(self._directory / str(node_id))
        if not directory.data.exists():
            directory.data.mkdir(parents=True)
            shutil.copyfile(home.bootstrap_snapshot, directory.data / BOOTSTRAP_SNAPSHOT)
            identity = {"version": "1", "cluster.id": self._cluster_id, "node.id": str(node_id)}
            (directory.data / "meta.properties").write_text(render(identity))
        settings = server_settings(
            directory.data,
            ports,
            {
                "node.id": str(node_id),
                **dict.fromkeys(_REPLICATED, str(len(self._ids))),
                IN_SYNC: "1",
                **self._properties,
                **own,
            },
        )
        options = [*archive_options(java, home), QUICK, *jvm_options]
        return Node(java, home, directory, settings, jvm_options=options, start_timeout_s=_START_S)


def other_ports(taken: set[int]) -> Ports:
    """Return free ports that no other node was given: none listens yet."""
    while True:
        ports = choose_ports()
        chosen = {ports.client, ports.internal, ports.controller}
        if not chosen & taken:
            taken |= chosen
            return ports
