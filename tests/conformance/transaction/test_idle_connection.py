"""A producer whose broker closes connections over which nothing was sent for long."""

import os
import time
from collections.abc import Iterator

import psutil
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA
from fencepost.kafka.wire import connection
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import CommitUnknownError, WriterFencedError
from support.clients import cluster_of
from support.quick import quick_kafka

IMPATIENT = {
    "connections.max.idle.ms": "2000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "broker.session.timeout.ms": "60000",  # it closes its own, too
    "broker.heartbeat.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with quick_kafka(properties=IMPATIENT, start_timeout_s=240) as running:
        yield running


@pytest.fixture
def impatient_topic(broker: EmbeddedKafka, topic_name: str) -> str:
    Admin({"bootstrap.servers": broker.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    return topic_name


def is_closed(port: int) -> bool:
    """Say whether the other end has closed the connection that has this port here."""
    found = psutil.Process(os.getpid()).net_connections("tcp")
    return any(each.status == psutil.CONN_CLOSE_WAIT and each.laddr.port == port for each in found)


@pytest.mark.parametrize("client", [BATCH], indirect=True)
def test_received_answers_are_processed_before_a_closed_connection_is_reopened(
    broker: EmbeddedKafka, impatient_topic: str, make_writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that the broker answered before it closed the connection are not in flight any more."""
    monkeypatch.setattr(connection, "_IDLE_S", 1.0)
    writer = make_writer(bootstrap=broker.bootstrap_servers, conf={"batch.size": "1"})
    writer.open()
    expected = [b"%d" % n for n in range(6)]
    for value in expected[:3]:
        writer.send(impatient_topic, value, partition=0)
    (busy,) = (each for each in cluster_of(writer).connections() if each.unanswered)
    _, port = busy._socket.getsockname()
    eventually(lambda: is_closed(port), within_s=30)
    for value in expected[3:]:
        writer.send(impatient_topic, value, partition=0)
    writer.commit()
    with CommittedReader(broker.bootstrap_servers, [impatient_topic]) as reader:
        assert [each.value for each in reader.catch_up()] == expected


@pytest.mark.parametrize("client", [BATCH], indirect=True)
@pytest.mark.parametrize(("idle_s", "is_new"), [(30.0, False), (90.0, True)])
def test_connection_that_was_idle_for_a_minute_is_reopened_before_use(
    kafka: EmbeddedKafka, topic: str, make_writer, monkeypatch: pytest.MonkeyPatch, idle_s: float, *, is_new: bool
) -> None:
    """A load balancer that has forgotten it answers with a reset, and what was sent is lost."""
    writer = make_writer(conf={"transaction.timeout.ms": "300000"})
    writer.open()
    writer.send(topic, b"0", partition=0)
    writer.flush()
    before = cluster_of(writer).connections()
    now_s = connection._clock_s
    # Which goes on while the machine is suspended; the clock of all deadlines does not.
    monkeypatch.setattr(connection, "_clock_s", lambda: now_s() + idle_s)
    writer.send(topic, b"1", partition=0)  # the same one: only within a partition there is an order
    writer.commit()
    assert all((each in before) is not is_new for each in cluster_of(writer).connections())
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        assert [each.value for each in reader.catch_up()] == [b"0", b"1"]


@pytest.mark.parametrize("client", [LIBRDKAFKA], indirect=True)
def test_transaction_counts_as_expired_when_its_idle_connection_was_closed(
    broker: EmbeddedKafka, impatient_topic: str, make_writer
) -> None:
    """The caller was too slow: the lost connection is what comes of that, not its cause."""
    conf = {"transaction.timeout.ms": "5000", "linger.ms": "0"}
    writer = make_writer(bootstrap=broker.bootstrap_servers, conf=conf)
    writer.open()
    writer.send(impatient_topic, b"0", partition=0)
    writer.flush()
    rests_since = time.monotonic()
    admin, ids = Admin({"bootstrap.servers": broker.bootstrap_servers}), [writer.transactional_id]
    eventually(lambda: admin.transactions.describe(ids)[ids[0]].state == "CompleteAbort", within_s=60)
    eventually(lambda: time.monotonic() - rests_since > 5)  # however long the flush has waited for the broker
    eventually(lambda: writer._client.strikes > 0, within_s=60)
    writer.send(impatient_topic, b"1", partition=0)
    with pytest.raises((WriterFencedError, CommitUnknownError)) as raised:
        writer.commit()
    assert raised.value.has_expired
