"""A client that sends nothing twice: whatever gets lost, one request of it was sent, and the outcome is what it seems.

A commit whose end was lost is unknown, every other transaction certainly not committed. Late requests do no harm, and
no strike is needed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from fencepost.transaction import CommitUnknownError, ProduceError, TransactionalWriter, WriterOpenError
from fencepost.transaction.writer import WriterState
from support.clients import cluster_of, only_batch, protocol_of, use_version
from support.proxy import Action, ApiKey, KafkaProxy

pytestmark = only_batch

OF_VERSION_1 = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)
OF_BOTH = (ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)
LOSSES = {
    "lost": Action.RESET,
    "answer lost": Action.ANSWER_LOST,
    "not answered": Action.DROP,
    "late": Action.HOLD_AND_RESET,
}


@pytest.fixture
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of transactions that is spoken; the broker has both."""
    use_version(request.param, monkeypatch)
    return int(request.param)


@pytest.fixture
def open_writer(make_writer: Callable[..., TransactionalWriter], proxy: KafkaProxy, version: int):
    def open_writer(transactional_id: str | None = None, **how) -> TransactionalWriter:
        writer = make_writer(transactional_id, bootstrap=proxy.bootstrap_servers, **how)
        writer.open()
        assert protocol_of(writer).coordinator.version == version
        return writer

    return open_writer


def _write(writer: TransactionalWriter, topic: str, value: bytes) -> None:
    """Write a record and a group's offset in one transaction."""
    writer.send(topic, value, partition=0)
    writer.commit(group_offsets=[GroupOffset(topic, 0, int(value))], group_metadata=memberless(f"group-{topic}"))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize(
    ("version", "lost"),
    [*((1, key) for key in (*OF_VERSION_1, *OF_BOTH)), *((2, key) for key in OF_BOTH)],
    indirect=["version"],
    ids=lambda each: each.name.lower() if isinstance(each, ApiKey) else f"version {each}",
)
def test_e21_lost_request_is_not_resent_and_its_commit_happens_at_most_once(
    open_writer, proxy, topic, committed, lost, loss
):
    writer = open_writer()
    _write(writer, topic, b"1")
    if loss is Action.DROP:  # from now on: a first transaction, of a group without a coordinator, may take longer
        object.__setattr__(writer._client._access, "answer_s", 5.0)
    rule = proxy.on(lost, loss)
    again = proxy.on(lost, Action.PASS, count=100)
    with pytest.raises(CommitUnknownError if lost is ApiKey.END_TXN else ProduceError):
        _write(writer, topic, b"2")
    assert rule.met == 1
    writer.abort()
    assert writer.state in (WriterState.UNKNOWN, WriterState.STRUCK)
    writer.close()
    successor = open_writer(writer.transactional_id)
    assert (rule.met, again.met) == (1, 0)
    successor.send(topic, b"3", partition=0)
    successor.flush()
    rule.release()  # what was late is refused: it comes behind the fence
    _write(successor, topic, b"3")
    was_committed = lost is ApiKey.END_TXN and loss is Action.ANSWER_LOST
    assert committed(topic) == [b"1", *([b"2"] if was_committed else []), b"3", b"3"]


def _reset_all(proxy: KafkaProxy, writer: TransactionalWriter) -> None:
    """Reset the connections, and wait until the client's end has heard of it: else a request would be lost."""
    proxy.reset_all()
    eventually(lambda: not any(each.is_usable() for each in cluster_of(writer).connections()))


@pytest.mark.parametrize("version", [1, 2], indirect=True, ids=["version 1", "version 2"])
def test_connection_lost_with_no_request_in_flight_is_reopened(open_writer, proxy, topic, committed):
    writer = open_writer()
    _write(writer, topic, b"1")
    _reset_all(proxy, writer)
    writer.send(topic, b"2", partition=0)
    writer.flush()
    _reset_all(proxy, writer)
    _write(writer, topic, b"3")
    assert not writer.is_struck
    assert committed(topic) == [b"1", b"2", b"3"]


def test_request_for_a_producer_id_is_sent_once_and_open_can_be_repeated(make_writer, proxy):
    writer = make_writer(bootstrap=proxy.bootstrap_servers)
    rule = proxy.on(ApiKey.INIT_PRODUCER_ID, Action.RESET)
    again = proxy.on(ApiKey.INIT_PRODUCER_ID, Action.PASS)
    with pytest.raises(WriterOpenError) as failed:
        writer.open()
    assert failed.value.is_passing
    assert (rule.met, again.met) == (1, 0)
    writer.open()
    assert writer.state is WriterState.OPEN


@pytest.mark.parametrize("version", [2], indirect=True)
def test_close_wakes_callers_that_wait_for_an_answer(open_writer, proxy, topic):
    writer = open_writer()
    held = proxy.on(ApiKey.PRODUCE, Action.HOLD)
    writer.send(topic, b"1")
    with ThreadPoolExecutor(1) as pool:
        flushing = pool.submit(writer.flush)
        held.await_met()
        writer.close()
        assert isinstance(flushing.exception(60), Exception)
    eventually(lambda: writer.state is WriterState.CLOSED)
