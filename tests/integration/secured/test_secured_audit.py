"""An audit whose principal may not read all that a ledger names."""

from collections.abc import Callable, Iterator

import orjson
import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.audit import Audit, AuditReport
from support.ledger_stage import LedgerStage
from support.secured import Grant, SecuredKafka


def right(topic: str, operation: str) -> Grant:
    return Grant("User:reader", "topic", topic, operation)


@pytest.fixture
def stage(broker: SecuredKafka, topic_name: str) -> Iterator[LedgerStage]:
    """A task that has written a transaction, and a reader that may audit it."""
    servers = broker.kafka.internal_servers
    admin = Admin({"bootstrap.servers": servers})
    for name in (topic_name, f"{topic_name}-offsets", f"{topic_name}-ledger", f"{topic_name}-secret"):
        admin.topics.create(name, partitions=1, replication=1)
    own = LedgerStage(servers, topic_name)
    own.write([b"a", b"b"])
    read = [right(name, "Read") for name in (topic_name, own.offsets, own.ledger)]
    broker.grant([*read, right(topic_name, "DescribeConfigs")])
    yield own
    own.delivery.close()


@pytest.fixture
def audit(broker: SecuredKafka, stage: LedgerStage) -> Callable[[], AuditReport]:
    client = {"bootstrap.servers": broker.kafka.bootstrap_servers, **broker.client("reader")}
    conf = range_conf({**client, "isolation.level": "read_committed"}, "audit").conf
    return lambda: Audit(conf, stage.ledger, "c").run()


def plant(broker: SecuredKafka, stage: LedgerStage, topic: str, offsets: str) -> None:
    """Write an entry as anybody may who may write to the ledger's topic."""
    run = [0, 0, 7, 0, 0, -1, 1, 0, "AAAAAA==", "", 0, 0]
    names = {"version": 1, "connector": "c", "task": 1, "offsets": offsets, "topics": [[topic, ""]]}
    producer = Producer({"bootstrap.servers": broker.kafka.internal_servers})
    value = orjson.dumps({**names, "producers": [["p", "i"]], "entries": [[0, 0, [run]]]})
    producer.produce(stage.ledger, value, key=b"c")
    assert producer.flush(60) == 0


@pytest.mark.parametrize("described", [False, True])
def test_unreadable_topics_are_noted_and_the_other_topics_are_compared(
    broker: SecuredKafka, stage: LedgerStage, audit: Callable[[], AuditReport], described: bool
) -> None:
    assert audit().is_complete
    secret = f"{stage.topic}-secret"
    broker.grant([right(secret, "Describe")] if described else [])
    plant(broker, stage, secret, secret)
    report = audit()
    assert [each.verified for each in report.partitions] == [2]
    assert (report.differences, report.is_complete) == ([], False)
    assert [note for note in report.notes if note.startswith(f"{secret} is left out: ")] == report.notes != []


def test_a_missing_entry_is_no_difference_when_the_offsets_topic_is_unreadable(
    broker: SecuredKafka, stage: LedgerStage, audit: Callable[[], AuditReport]
) -> None:
    """The second transaction's entry is carried there: it must not be taken for one without an entry."""
    stage.write([b"c"])
    assert audit().is_complete
    broker.revoke(right(stage.offsets, "Read"))
    report = audit()
    assert (report.differences, report.is_complete) == ([], False)
    assert report.partitions[0].verified == 2
