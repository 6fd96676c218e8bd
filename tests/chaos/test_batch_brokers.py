"""The batch client on three brokers with three replicas, of which the leader of what it writes to is killed."""

import pytest

from fencepost.kafka.admin import Admin
from fencepost.kafka.settings import transactional_conf
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    TransactionalWriter,
    WriterFencedError,
    WriterOpenError,
)
from support.brokers import Brokers

TOPIC, PARTITIONS, TOTAL, KILLED_AT = "numbers", 3, 300, 150


def opened(servers: str) -> TransactionalWriter:
    """Open a writer, while brokers agree on who leads."""
    conf = transactional_conf({"bootstrap.servers": servers, "client": "batch"}, "id").conf
    writer = TransactionalWriter(conf, "id")

    def is_open() -> bool:
        try:
            writer.open(20)
        except WriterOpenError as error:
            if error.is_passing:
                return False
            raise
        return True

    eventually(is_open, within_s=120)
    return writer


def committed(servers: str) -> list[int]:
    return sorted(int(seen.value or b"") for seen in CommittedReader(servers, [TOPIC]).read_all(60))


@pytest.mark.chaos
def test_e21_what_is_written_while_a_leader_is_killed_is_there_once() -> None:
    with Brokers() as brokers:
        servers = brokers.bootstrap_servers
        admin = Admin({"bootstrap.servers": servers})
        admin.create_topic(TOPIC, partitions=PARTITIONS, replication=3)
        writer, number, errors, victim = opened(servers), 0, [], brokers.leader_of(TOPIC)
        while number < TOTAL:
            if number >= KILLED_AT and victim is not None:
                brokers.kill(victim)
                victim = None
            try:
                for partition in range(PARTITIONS):
                    writer.send(TOPIC, b"%d" % (number + partition), partition=partition)
                writer.commit()
                number += PARTITIONS
            except (ProduceError, CommitUnknownError, WriterFencedError) as error:
                errors.append(error)
                writer.abort()
                writer.close()
                writer = opened(servers)
                number = max(committed(servers)) + 1  # E3
        writer.close()
        assert errors
        assert committed(servers) == list(range(number))
