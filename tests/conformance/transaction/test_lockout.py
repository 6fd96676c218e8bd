"""E2 without a producer: an id whose holder is locked out by a request."""

import time
from contextlib import closing
from typing import Any

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.wire import cluster, coordinators
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.coordinators import TRANSACTION
from fencepost.transaction import CommitUnknownError, WriterFencedError, WriterState, lock_out
from support.proxy import Action, ApiKey


def test_e2_a_holder_that_is_locked_out_by_a_request_cannot_commit(make_writer, kafka, topic, committed):
    holder = make_writer()
    holder.open()
    holder.send(topic, b"0")
    holder.flush()
    assert make_writer(holder.transactional_id).lock_out()
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    described = admin.transactions.describe([holder.transactional_id])[holder.transactional_id]
    assert described.state in ("CompleteAbort", "Empty"), "nothing of the transaction is left when the request returns"
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        holder.commit()
    assert committed(topic) == []


def test_e2_holder_locked_out_between_transactions_cannot_commit_the_next_one(make_writer, topic, committed):
    holder = make_writer()
    holder.open()
    holder.send(topic, b"0")
    holder.commit()
    assert make_writer(holder.transactional_id).lock_out()
    holder.send(topic, b"1")
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        holder.commit()
    assert committed(topic) == [b"0"]


def test_transactional_id_can_be_taken_after_a_lockout(make_writer, topic, committed):
    """This includes an id that nobody had before."""
    make_writer().open()  # the first of all: a broker that is asked for a coordinator only now makes the topic first
    writer = make_writer()
    assert make_writer(writer.transactional_id).lock_out()
    writer.open()
    writer.send(topic, b"0")
    writer.commit()
    assert committed(topic) == [b"0"]


@pytest.mark.parametrize(
    "conf",
    [
        {"bootstrap.servers": "127.0.0.1:1"},
        {"bootstrap.servers": "nowhere"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
        {"transaction.timeout.ms": 86_400_000},
    ],
    ids=["no broker", "no port", "the broker has no SASL", "the broker refuses"],
)
def test_lockout_by_request_is_declined_when_only_a_producer_can_do_it(make_writer, conf):
    writer = make_writer(conf=conf)
    assert not writer.lock_out(5.0)
    assert writer.state is WriterState.NEW


@pytest.mark.parametrize("key", [ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID])
@pytest.mark.parametrize("action", [Action.RESET, Action.ANSWER_LOST])
def test_e2_holder_is_locked_out_by_a_producer_when_the_request_is_lost(
    make_writer, proxy, topic, committed, key, action
):
    holder = make_writer()
    holder.open()
    holder.send(topic, b"0")
    holder.flush()
    rule = proxy.on(key, action)
    assert lock_out(make_writer(holder.transactional_id, bootstrap=proxy.bootstrap_servers))
    assert rule.met == 1
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        holder.commit()
    assert committed(topic) == []


def test_connection_that_found_the_coordinator_is_used_to_talk_to_it(make_writer, kafka, monkeypatch):
    writer = make_writer()
    writer.open()  # the first of all: the topic of transactional ids is there
    made: list[Connection] = []

    def connect(*arguments: Any) -> Connection:
        made.append(Connection(*arguments))
        return made[-1]

    for module in (coordinators, cluster):
        monkeypatch.setattr(module, "connect", connect)
    until_s = time.monotonic() + 60
    with closing(cluster.Cluster(Access.of({"bootstrap.servers": kafka.bootstrap_servers}), 300)) as asked:
        node = asked.coordinators.find(TRANSACTION, writer.transactional_id, until_s)
        assert asked.connection(node, until_s) is made[0]
        asked.metadata([], until_s)  # on another one: an answer to a producer's request may be due on that
        assert asked.connection(node, until_s) is made[0]
    assert [each.fileno() for each in made] == [-1, -1]
