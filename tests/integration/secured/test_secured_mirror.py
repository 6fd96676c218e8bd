"""The output of `fencepost acls` for a mirror: it suffices, and each missing right is named."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from secured_case import PLAIN_USERS, SECRETS, USERS, settings
from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.kafka.errors import retry
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.cluster import LightWorker
from support.log_writer import LogWriter
from support.long_form import IS_LONG
from support.secured import Grant, SecuredKafka, parsed

WORKERS = "mirrors"
SINK, CHECKPOINT = "copy", "follow"
TOPIC, REMOTE, SYNCS, CHECKPOINTS = (
    "orders",
    "west.orders",
    "mm2-offset-syncs.west.internal",
    "west.checkpoints.internal",
)
_DENIED = re.compile(r"AUTHORI[SZ]ATION_FAILED|not authori[sz]ed|[Aa]uthorization failed|may not|is not granted")
_NO_ACLS = "the ACLs of topics are not mirrored"
_OPTIONAL = re.compile(f"uses one lane|{_NO_ACLS}")
GROUP, READERS = f"connect-{SINK}", "readers"
PACKAGE = "org.apache.kafka.connect.mirror."


@dataclass
class Mirrored:
    """Two brokers, a worker at the second one, and what a mirror between them was granted there."""

    source: SecuredKafka
    target: SecuredKafka
    worker: LightWorker
    writer: LogWriter
    configs: Mapping[str, dict[str, str]]
    grants: list[tuple[SecuredKafka, Grant]]
    sent: list[str] = field(default_factory=list)

    def send(self, count: int = 1) -> None:
        values = [str(len(self.sent) + n) for n in range(count)]
        self.writer.send(TOPIC, values)
        self.sent += values

    def values(self) -> list[str]:
        found = CommittedReader(self.target.kafka.internal_servers, [REMOTE]).read_all(30)
        return [(each.value or b"").decode() for each in found]

    def await_sent(self, within_s: float = 90) -> None:
        eventually(lambda: self.values() == self.sent, within_s=within_s)

    def commit(self) -> None:
        """Set a group's offset to the end of the log."""
        conf = {"bootstrap.servers": self.source.kafka.internal_servers}
        position = GroupOffset(TOPIC, 0, len(self.sent), "")
        retry(lambda: GroupOffsets(conf, READERS).commit([position]), 60.0, 0.1)

    def followed(self) -> int:
        """Return the group's offset at the target."""
        conf = {"bootstrap.servers": self.target.kafka.internal_servers}
        return max(GroupOffsets(conf, READERS).read().values(), default=0)

    def restart(self) -> None:
        for name in self.configs:
            answer = self.worker.rest.post(f"/connectors/{name}/restart?includeTasks=true")
            assert answer.status_code == 202, answer.text

    def checkpoints(self) -> int:
        return len(CommittedReader(self.target.kafka.internal_servers, [CHECKPOINTS]).read_all(30))


def end(cluster: str, broker: SecuredKafka, user: str) -> dict[str, str]:
    own = {"bootstrap.servers": broker.kafka.bootstrap_servers, **broker.client(user)}
    return {f"{cluster}.cluster.{key}": value for key, value in own.items()}


def configs(source: SecuredKafka, target: SecuredKafka) -> dict[str, dict[str, str]]:
    shared = {
        "topics": TOPIC,
        "source.cluster.alias": "west",
        "target.cluster.alias": "east",
        **end("source", source, "reader"),
        **end("target", target, "other"),
        "offset-syncs.topic.location": "target",
        "source.consumer.fetch.max.wait.ms": "20",
    }
    records = {
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
        "heartbeats.replication.enabled": "false",
    }
    following = {
        "groups": READERS,
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "checkpoints.topic.replication.factor": "1",
    }
    return {
        SINK: {"connector.class": f"{PACKAGE}MirrorSinkConnector", "transaction.producer": "true", **shared, **records},
        CHECKPOINT: {"connector.class": f"{PACKAGE}MirrorCheckpointConnector", **shared, **following},
    }


def granted(worker: LightWorker, name: str, config: Mapping[str, str], cluster: SecuredKafka) -> list[Grant]:
    """Return what `fencepost acls --commands` prints for a connector at one cluster."""
    path = worker.directory / f"{name}.json"
    path.write_text(json.dumps({"name": name, "config": dict(config)}))
    done = CliRunner().invoke(app, ["acls", "--commands", str(worker.file), str(path)])
    assert done.exit_code == 0, done.output
    assert not [secret for secret in SECRETS if secret in done.output]
    here = f"--bootstrap-server {cluster.kafka.bootstrap_servers} "
    return parsed("\n".join(line for line in done.output.splitlines() if here in line))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("source"), USERS, PLAIN_USERS) as running:
        yield running


@pytest.fixture(scope="module")
def mirrored(
    source: SecuredKafka, broker: SecuredKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mirrored]:
    directory = tmp_path_factory.mktemp("mirror")
    stores = {"connector.client.config.override.allowed.paths": f"{source.authority},{broker.authority}"}
    worker = LightWorker(broker.kafka.bootstrap_servers, directory, settings(broker.client) | stores, group=WORKERS)
    worker.write_file()
    wanted = configs(source, broker)
    grants = list(
        dict.fromkeys(
            (cluster, grant)
            for cluster in (source, broker)
            for name, config in wanted.items()
            for grant in granted(worker, name, config, cluster)
        )
    )
    for cluster in (source, broker):
        cluster.grant([grant for where, grant in grants if where is cluster])
    writer = LogWriter(source.kafka.internal_servers)
    writer.topic(TOPIC)
    with worker, contextlib.closing(writer):
        running = Mirrored(source, broker, worker, writer, wanted, grants)
        running.send(10)
        for name, config in wanted.items():
            answer = worker.create(name, config)
            assert answer.status_code == 201, answer.text
        yield running


def rights(user: str, resource: str, name: str, *operations: str) -> set[str]:
    return {str(Grant(f"User:{user}", resource, name, operation)) for operation in operations}


def test_exactly_the_printed_rights_let_a_mirror_run_exactly_once(mirrored: Mirrored) -> None:
    at_source = {str(grant) for cluster, grant in mirrored.grants if cluster is mirrored.source}
    assert at_source == {
        *rights("reader", "topic", TOPIC, "Read", "DescribeConfigs", "Describe"),  # the last: of the one that follows
        *rights("reader", "group", READERS, "Describe"),
    }
    of_mirrors = {str(grant) for cluster, grant in mirrored.grants if "User:other" in grant.principal}
    assert of_mirrors == {
        *rights("other", "topic", REMOTE, "Create", "Alter", "AlterConfigs", "Read"),
        *rights("other", "topic", SYNCS, "Create", "Read", "Describe"),  # the last: of the one that copies
        *rights("other", "topic", CHECKPOINTS, "Create", "Read"),
        *rights("other", "group", GROUP, "Describe"),
        *rights("other", "group", READERS, "Read"),
    }
    await_all(mirrored)
    for name in mirrored.configs:
        assert mirrored.worker.status(name)["connector"]["state"] == "RUNNING"
    assert not denied(mirrored.worker.log_text())


def await_all(mirrored: Mirrored) -> None:
    """Wait until all records are at the target, and its group is after them."""
    mirrored.await_sent()
    before = mirrored.followed()  # the commit may be followed before another look
    mirrored.commit()
    eventually(lambda: mirrored.followed() > before, within_s=90)


def denied(log: str) -> list[str]:
    """Return the lines that name a missing right, except rights that a mirror may lack."""
    return [line for line in log.splitlines() if _DENIED.search(line) and not _OPTIONAL.search(line)]


def test_a_mirror_that_may_not_list_acls_warns_that_it_mirrors_none(mirrored: Mirrored) -> None:
    eventually(lambda: _NO_ACLS in mirrored.worker.log_text(), within_s=60)
    warning = next(line for line in mirrored.worker.log_text().splitlines() if _NO_ACLS in line)
    assert "CLUSTER_AUTHORIZATION_FAILED" in warning
    assert "set sync.topic.acls.enabled to false" in warning


# Without one of these, something says so. (Kafka does not tell of groups that may not be described.)
NEEDED = [
    ("source", Grant("User:reader", "topic", TOPIC, "Read")),
    ("source", Grant("User:reader", "topic", TOPIC, "DescribeConfigs")),
    ("target", Grant("User:other", "group", READERS, "Read")),
    ("target", Grant("User:other", "topic", SYNCS, "Read")),
    ("target", Grant("User:other", "topic", CHECKPOINTS, "Read")),
    ("target", Grant("User:other", "topic", REMOTE, "Read")),
    ("target", Grant("User:writer", "group", GROUP, "Read")),
    ("target", Grant("User:writer", "topic", REMOTE, "Read")),
    ("target", Grant("User:writer", "topic", REMOTE, "Write")),
    ("target", Grant("User:maker", "group", GROUP, "Describe")),
]


@pytest.mark.parametrize(("where", "grant"), NEEDED if IS_LONG else NEEDED[:1], ids=str)
def test_a_mirror_without_a_right_logs_the_denied_operation(mirrored: Mirrored, where: str, grant: Grant) -> None:
    cluster: SecuredKafka = getattr(mirrored, where)
    told = len(mirrored.worker.log_text())
    cluster.revoke(grant)
    try:
        mirrored.restart()
        mirrored.send()
        mirrored.commit()
        eventually(lambda: [x for x in denied(mirrored.worker.log_text()[told:]) if grant.name in x], within_s=60)
    finally:
        cluster.grant([grant])
    mirrored.restart()
    mirrored.send()
    # What the source is told of where its mirror stands, for 45 s where that is not granted, is not waited for.
    mirrored.await_sent(within_s=35)
    await_all(mirrored)
