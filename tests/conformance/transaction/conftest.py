"""Fixtures of the transaction suite: writers that are closed, topics, and readers of what is committed."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.setting.table import CLIENT
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import TransactionalWriter, WriterTimeouts
from fencepost.transaction.writer import WriterState
from support.clients import CLIENTS
from support.proxy import KafkaProxy

MakeWriter = Callable[..., TransactionalWriter]


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    """A topic with two partitions."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=2, replication=1)
    return topic_name


@pytest.fixture
def offsets_topic(kafka: EmbeddedKafka, topic: str) -> str:
    """A topic for the source offsets of a task that writes to `topic`."""
    name = f"{topic}-offsets"
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(name, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    return name


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """The client of a writer: the suite is the same for all."""
    return str(request.param)


@pytest.fixture
def make_writer(kafka: EmbeddedKafka, client: str) -> Iterator[MakeWriter]:
    """Makes writers as Fencepost does; each is closed in the end."""
    writers: list[TransactionalWriter] = []

    def make(
        transactional_id: str | None = None,
        *,
        bootstrap: str | None = None,
        timeouts: WriterTimeouts | None = None,
        conf: dict[str, Any] | None = None,
    ) -> TransactionalWriter:
        wanted = transactional_id or f"id-{uuid.uuid4().hex[:8]}"
        usual = transactional_conf({"bootstrap.servers": bootstrap or kafka.bootstrap_servers}, wanted).conf
        writer = TransactionalWriter({**usual, CLIENT: client, **(conf or {})}, wanted, timeouts)
        writers.append(writer)
        return writer

    yield make
    for writer in writers:
        if writer.state is not WriterState.CLOSED:
            writer.close()


@pytest.fixture
def after_abort(make_writer: MakeWriter) -> Callable[[TransactionalWriter], TransactionalWriter]:
    """Return the writer to go on with after an abort: itself or, where it is struck, another with its id, as tasks do.

    An abort may come before the transaction's first partition is registered, which the broker refuses for as long as
    the markers of the one before are being written. Then it knows of none to end, and answers INVALID_TXN_STATE.
    """

    def next_one(writer: TransactionalWriter) -> TransactionalWriter:
        if writer.state is WriterState.OPEN:
            return writer
        assert writer.state is WriterState.STRUCK
        writer.close()
        successor = make_writer(writer.transactional_id)
        successor.open()
        return successor

    return next_one


@pytest.fixture
def committed(kafka: EmbeddedKafka) -> Callable[..., list[bytes]]:
    """Returns the values that are committed in topics, to the end; open transactions are waited for."""

    def read(*topics: str, within_s: float = 40.0) -> list[Any]:
        found = CommittedReader(kafka.bootstrap_servers, topics).read_all(within_s)
        return [observation.value for observation in found]

    return read


@pytest.fixture
def proxy(kafka: EmbeddedKafka) -> Iterator[KafkaProxy]:
    with KafkaProxy(kafka.bootstrap_servers) as running:
        yield running
