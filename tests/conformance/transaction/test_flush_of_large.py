"""A large transaction is flushed without librdkafka's thread polling all the time while a batch is under way."""

import threading
import time
from collections.abc import Callable

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.transaction import TransactionalWriter
from support.clients import column, only_librdkafka
from support.proxy import Action, ApiKey, KafkaProxy

pytestmark = only_librdkafka
MakeWriter = Callable[..., TransactionalWriter]
VALUES = [b"%0100d" % number for number in range(20_000)]  # four batches


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """One entry for each time that a producer looks whether its queue gets shorter, before it asks for the rest."""
    seen: list[float] = []

    def look_again_in(seconds: float) -> None:
        seen.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr("fencepost.kafka.produce.librdkafka_producer._look_again_in", look_again_in)
    return seen


def test_no_flush_is_requested_while_a_batch_is_in_flight(
    kafka: EmbeddedKafka,
    make_writer: MakeWriter,
    proxy: KafkaProxy,
    committed: Callable[..., list[bytes]],
    looks: list[float],
) -> None:
    topic = "large-transactions"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=1, replication=1)
    writer = make_writer(bootstrap=proxy.bootstrap_servers)
    writer.open()
    writer.send_columns(*column(topic, VALUES[:10]))
    writer.commit()
    assert not looks  # there is nothing but the last batch
    held = proxy.on(ApiKey.PRODUCE, Action.HOLD, 1)
    writer.send_columns(*column(topic, VALUES))
    flushing = threading.Thread(target=writer.flush)
    flushing.start()
    held.await_met()
    eventually(lambda: looks, within_s=60)
    held.release()
    flushing.join(60)
    writer.commit()
    assert committed(topic) == VALUES[:10] + VALUES


def test_sent_batches_are_noticed_without_a_flush(
    kafka: EmbeddedKafka, make_writer: MakeWriter, looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client counts a record until its acknowledgement has been served: who only looks sees nothing move."""
    topic = "large-transactions-go"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=1, replication=1)
    monkeypatch.setattr("fencepost.kafka.produce.librdkafka_producer._STALLED_S", 120.0)
    writer = make_writer()
    writer.open()
    for _ in range(3):
        writer.send_columns(*column(topic, VALUES))
        began_s = time.monotonic()
        writer.flush()
        assert time.monotonic() - began_s < 60.0
        writer.commit()
    assert looks


def test_records_spread_over_partitions_are_awaited_only_once(
    kafka: EmbeddedKafka,
    topic: str,
    make_writer: MakeWriter,
    committed: Callable[..., list[bytes]],
    looks: list[float],
) -> None:
    """None of the partitions has a full batch, so that nothing moves before the flush."""
    spread = f"{topic}-spread"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(spread, partitions=16, replication=1)
    writer = make_writer(conf={"linger.ms": "30000"})
    writer.open()
    looks_each = []
    for _ in range(4):
        writer.send_columns([spread] * len(VALUES), VALUES, VALUES)
        writer.flush()
        writer.commit()
        looks_each.append(len(looks))
        looks.clear()
    assert looks_each[0] > 0
    assert looks_each[1:] == [0, 0, 0]
    assert sorted(committed(spread)) == sorted(VALUES * 4)
