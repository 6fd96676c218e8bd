"""What a streaming query may do on a cluster with TLS, SASL and ACLs: no more than its page lists."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import TopicSpec
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.value.position import GroupOffset
from fencepost.kafka.wire.requests import Targets
from fencepost.record import TopicPartition
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.committer import Kept, PendingBatch, commit_batch
from fencepost.spark.write.encode import Encoder
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import Staged, stage
from support.secured import Grant, SecuredKafka

pytestmark = pytest.mark.timeout(600)

USER = "maker"
# The page "Write Kafka from Spark" has these in a table. Each of Read and Write includes Describe.
GRANTS = [
    Grant(f"User:{USER}", "topic", "out", "Write"),
    *(Grant(f"User:{USER}", "topic", "fencepost-writes", each) for each in ("Read", "Write", "Create")),
    Grant(f"User:{USER}", "transactional-id", "fencepost-write-", "Write", is_prefix=True),
    Grant(f"User:{USER}", "group", "lag", "Read"),
    Grant(f"User:{USER}", "topic", "in", "Read"),
]


@pytest.fixture(params=[None, *GRANTS], ids=lambda grant: "all" if grant is None else f"{grant.name}-{grant.operation}")
def missing(broker: SecuredKafka, request: pytest.FixtureRequest) -> Iterator[Grant | None]:
    """Give every right but one."""
    left: Grant | None = request.param
    broker.grant([grant for grant in GRANTS if grant is not left])
    Admin({"bootstrap.servers": broker.kafka.internal_servers}).topics.create_all(
        {name: TopicSpec(2, 1) for name in ("in", "out")}
    )
    yield left
    broker.clear()


def test_listed_rights_are_enough_and_each_of_them_is_needed(broker: SecuredKafka, missing: Grant | None) -> None:
    servers = {"bootstrap.servers": broker.kafka.bootstrap_servers}
    options = {f"kafka.{key}": value for key, value in {**servers, **broker.client(USER)}.items()}
    config = WriterConfig.of({**options, "topic": "out", "commit.group": "lag"})

    def commit(number: int) -> bool:
        """Commit a batch by a process that has committed no other."""
        kept: Kept = {}
        batch = PendingBatch("query", number, "", [GroupOffset("in", 0, 3)])
        try:
            return commit_batch(config, batch, [_staged(config)], kept)
        finally:
            for committer in kept.values():
                committer.close()

    if missing is not None:
        with pytest.raises(Exception, match=r"(?i)authoriz"):
            _ = [commit(0), commit(1)]
        return
    assert [commit(0), commit(0)] == [True, False]
    assert _values(broker) == [b"0", b"1", b"2"]
    found = read_stable({"bootstrap.servers": broker.kafka.internal_servers}, "lag", 30)
    assert {place: each.offset for place, each in found.items()} == {TopicPartition("in", 0): 3}


def _staged(config: WriterConfig) -> Staged:
    conf = config.conf(ClientKind.PRODUCER)
    targets = Targets(conf)
    encoder = Encoder(RecordMaker(["value"], "out"), targets.get, conf, first=0)
    try:
        return stage(encoder, [pa.record_batch({"value": ["0", "1", "2"]})], Folder("/none"))
    finally:
        targets.close()


def _values(broker: SecuredKafka) -> list[bytes | None]:
    found: list[bytes | None] = []
    reader = LogReader({"bootstrap.servers": broker.kafka.internal_servers}, "out")
    reader.read_to_end(30, lambda record: found.append(record.value))
    reader.close()
    return found
