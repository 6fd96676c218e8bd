"""Brokers that let nobody in for longer than some seconds: a transaction goes on over new connections."""

import time
from pathlib import Path

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.setting.table import BATCH, CLIENT
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import TransactionalWriter
from support.secured import Grant, SecuredKafka

SESSION_MS = 3_000
TOPIC = "t"


def test_busy_and_idle_senders_commit_a_transaction_that_outlasts_a_session(tmp_path: Path) -> None:
    """The first half sends all the time, with answers unread; the other has a rest longer than a session."""
    with SecuredKafka(tmp_path, {"writer": "hush-4731"}, {}, session_ms=SESSION_MS) as broker:
        Admin({"bootstrap.servers": broker.kafka.internal_servers}).topics.create(TOPIC, partitions=1, replication=1)
        broker.grant(
            [Grant("User:writer", "topic", TOPIC, "Write"), Grant("User:writer", "transactional-id", "w", "Write")]
        )
        given = {**broker.client("writer"), "bootstrap.servers": broker.kafka.bootstrap_servers, "batch.size": "1"}
        writer = TransactionalWriter({**transactional_conf(given, "w").conf, CLIENT: BATCH}, "w")
        writer.open()
        began_s, sent = time.monotonic(), []

        def send() -> None:
            sent.append(b"%d" % len(sent))
            writer.send(TOPIC, sent[-1], partition=0)

        def has_sent_for(seconds: float) -> bool:
            send()
            return time.monotonic() - began_s > seconds

        try:
            eventually(lambda: has_sent_for(1.7 * SESSION_MS / 1000), within_s=60, every_s=0.02)
            eventually(lambda: time.monotonic() - began_s > 3.0 * SESSION_MS / 1000, within_s=60, every_s=0.1)
            send()
            writer.commit()
        finally:
            writer.close()
        with CommittedReader(broker.kafka.internal_servers, [TOPIC]) as reader:
            assert [each.value for each in reader.catch_up()] == sent
