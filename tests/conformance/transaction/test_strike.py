"""E5 and E6 under faults of the network, put at chosen requests by a proxy before the real broker."""

from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest

from fencepost.kafka.produce.producer import ProducerClient
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.setting.table import CLIENT
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import CommitUnknownError, ProduceError, WriterOpenError, WriterTimeouts
from fencepost.transaction.writer import IllegalMoveError, WriterState
from support.clients import only_librdkafka, other_than
from support.member import undisturbed_member
from support.proxy import Action, ApiKey

OFFSET = b'["connector",{"file":"f"}]'


@pytest.fixture
def open_writer(make_writer, proxy):
    """Opens a writer that reaches the broker through the proxy."""

    def open_writer(transactional_id=None, **how):
        writer = make_writer(transactional_id, bootstrap=proxy.bootstrap_servers, **how)
        writer.open()
        return writer

    return open_writer


@pytest.fixture
def after_commit(open_writer):
    """Returns the writer to go on with after a commit, as tasks do, and which of the records are committed."""

    def next_one(writer, commit, records=()):
        try:
            commit()
        except (ProduceError, CommitUnknownError):  # what did not come through until the next one opens never will
            records = ()
        if writer.is_struck or writer.state is not WriterState.OPEN:
            writer.close()
            writer = open_writer(writer.transactional_id)
        return writer, list(records)

    return next_one


def test_a_writer_is_not_struck_when_nothing_happens(open_writer, topic, committed):
    writer = open_writer()
    for n in range(20):
        writer.send(topic, b"%d" % n)
        writer.commit()
        assert not writer.is_struck
    assert len(committed(topic)) == 20


@only_librdkafka
@pytest.mark.parametrize(
    ("api_key", "action"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, Action.ANSWER_LOST),
        (ApiKey.PRODUCE, Action.RESET),
        (ApiKey.END_TXN, Action.RESET),
        (ApiKey.END_TXN, Action.ANSWER_LOST),
    ],
    ids=lambda part: part.name.lower(),
)
def test_e5_a_strike_retires_the_writer_after_its_commit(open_writer, proxy, topic, committed, api_key, action):
    writer = open_writer()
    writer.send(topic, b"first")
    writer.commit()
    rule = proxy.on(api_key, action)
    writer.send(topic, b"struck", partition=0)
    writer.send(topic, b"position", key=OFFSET)
    writer.commit()
    assert rule.met == 1
    assert writer.is_struck, "a resent request was not noticed"
    assert writer.last_strike
    with pytest.raises(IllegalMoveError):
        writer.send(topic, b"never")
    with pytest.raises(IllegalMoveError):
        writer.commit()
    writer.close()
    successor = open_writer(writer.transactional_id)
    assert not successor.is_struck
    successor.send(topic, b"successor")
    successor.commit()
    assert sorted(committed(topic)) == [b"first", b"position", b"struck", b"successor"]


@pytest.fixture
def ownership(kafka, topic):
    """Group metadata of a live member that owns the topic."""
    terms = []
    conf = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"group-{topic}"}
    membership = undisturbed_member(conf, topic, terms.append)
    membership.start()
    yield lambda: eventually(lambda: terms and terms[-1].metadata)
    membership.stop()


def _group_offset(kafka, topic):
    """Return the group's committed offset of partition 0."""
    conf = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"group-{topic}"}
    consumer = confluent_kafka.Consumer(conf)
    try:
        found = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=10)
        return found[0].offset
    finally:
        consumer.close()


@only_librdkafka
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("api_key", "action"),
    [(ApiKey.ADD_OFFSETS_TO_TXN, Action.RESET), (ApiKey.TXN_OFFSET_COMMIT, Action.ANSWER_LOST)],
    ids=lambda part: part.name.lower(),
)
def test_e5_a_strike_on_a_request_about_group_offsets_retires_the_writer(
    open_writer, proxy, topic, committed, ownership, api_key, action
):
    writer = open_writer()
    rule = proxy.on(api_key, action)
    writer.send(topic, b"struck")
    writer.commit(group_offsets=[GroupOffset(topic, 0, 7)], group_metadata=ownership())
    assert rule.met == 1
    assert writer.is_struck
    assert committed(topic) == [b"struck"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a struck producer wait long for the group's answer: strikes are only those that the test causes."""
    monkeypatch.setattr("fencepost.kafka.produce.producer._STRUCK_S", 30.0)


def _commit_with_late_offsets(proxy, held, commit):
    """Commits; the offset commit that is held arrives after this transaction's own and before its end."""
    end = proxy.on(ApiKey.END_TXN, Action.HOLD)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(commit)
        end.await_met()
        assert held.release() == 1
        assert end.release() == 1
        done.result(60)


@pytest.mark.usefixtures("patient")
def test_e5_late_offset_commit_rewinds_no_position_when_the_writer_is_replaced(
    kafka, open_writer, after_commit, proxy, topic, ownership
):
    metadata = ownership()
    held = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD_AND_RESET)
    writer = open_writer()
    writer, _ = after_commit(
        writer, lambda: writer.commit(group_offsets=[GroupOffset(topic, 0, 10)], group_metadata=metadata)
    )
    assert held.met == 1
    _commit_with_late_offsets(
        proxy, held, lambda: writer.commit(group_offsets=[GroupOffset(topic, 0, 20)], group_metadata=metadata)
    )
    assert _group_offset(kafka, topic) == 20


@pytest.mark.usefixtures("patient")
def test_late_offset_commit_rewinds_a_producer_that_violates_e5(kafka, proxy, topic, ownership):
    """The test of the test above."""
    client = ProducerClient(transactional_conf({"bootstrap.servers": proxy.bootstrap_servers}, f"back-{topic}").conf)
    metadata = ownership()
    held = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD_AND_RESET)
    client.init_transactions(20)
    client.begin()
    client.begin_offsets([GroupOffset(topic, 0, 10)], metadata, 20)
    client.await_offsets()
    client.commit(20)
    client.begin()
    client.begin_offsets([GroupOffset(topic, 0, 20)], metadata, 20)
    client.await_offsets()
    _commit_with_late_offsets(proxy, held, lambda: client.commit(20))
    assert _group_offset(kafka, topic) == 10
    client.drop()


def test_e5_a_strike_before_an_abort_retires_the_writer(open_writer, proxy, topic, committed):
    writer = open_writer()
    proxy.on(ApiKey.END_TXN, Action.RESET)
    writer.send(topic, b"aborted")
    writer.flush()
    writer.abort()
    assert writer.is_struck
    writer.close()
    open_writer(writer.transactional_id)  # ends what is left open
    assert committed(topic) == []


@only_librdkafka
def test_e5_a_request_that_timed_out_is_a_strike(open_writer, proxy, topic, committed):
    writer = open_writer(conf={"socket.timeout.ms": 1000})
    rule = proxy.on(ApiKey.END_TXN, Action.DROP)
    writer.send(topic, b"record")
    writer.commit()
    assert rule.met == 1
    assert writer.is_struck
    assert committed(topic) == [b"record"]


@only_librdkafka
def test_e5_a_connection_lost_between_transactions_is_a_strike(open_writer, proxy, topic):
    writer = open_writer()
    writer.send(topic, b"record")
    writer.commit()
    assert not writer.is_struck
    proxy.reset_all()
    writer.send(topic, b"next")
    writer.commit()
    assert writer.is_struck


@only_librdkafka
def test_e5_strike_is_noticed_when_librdkafka_logged_the_same_failure_before(make_writer, proxy, topic, committed):
    """librdkafka suppresses what it has said twice, whatever state the connection was in when it said so."""
    found = proxy.on(ApiKey.FIND_COORDINATOR, Action.PASS)
    resets = proxy.on(ApiKey.API_VERSIONS, Action.RESET, count=4, matches=lambda _: found.met > 0)  # the coordinator's
    writer = make_writer(bootstrap=proxy.bootstrap_servers)
    writer.open()
    assert resets.met == 4
    rule = proxy.on(ApiKey.END_TXN, Action.RESET)
    writer.send(topic, b"record")
    writer.commit()
    assert rule.met == 1
    assert writer.is_struck, "an EndTxn was sent twice, and nobody noticed"
    assert committed(topic) == [b"record"]


@only_librdkafka
def test_open_fails_with_a_passing_error_when_every_attempt_loses_a_connection(make_writer, proxy):
    rule = proxy.on(ApiKey.INIT_PRODUCER_ID, Action.RESET)
    again = [proxy.on(ApiKey.INIT_PRODUCER_ID, action) for action in (Action.PASS, Action.RESET) * 2]
    writer = make_writer(bootstrap=proxy.bootstrap_servers)
    with pytest.raises(WriterOpenError) as failed:
        writer.open()
    assert failed.value.is_passing
    assert rule.met == 1
    assert [each.met for each in again] == [1, 1, 1, 1]
    writer.open()
    assert writer.state is WriterState.OPEN


def test_e6_an_unknown_commit_can_be_neither_repeated_nor_aborted(open_writer, proxy, topic, committed):
    writer = open_writer(timeouts=WriterTimeouts(commit_s=5.0))
    lost = proxy.on(ApiKey.END_TXN, Action.ANSWER_LOST, count=1)
    proxy.on(ApiKey.END_TXN, Action.DROP, count=100)
    writer.send(topic, b"record")
    with pytest.raises(CommitUnknownError):
        writer.commit()
    assert writer.state is WriterState.UNKNOWN
    for call in (writer.commit, lambda: writer.send(topic, b"more"), writer.flush):
        with pytest.raises(IllegalMoveError):
            call()
    writer.abort()
    assert writer.state is WriterState.UNKNOWN
    writer.close()
    proxy.clear()
    assert lost.met == 1
    open_writer(writer.transactional_id)
    assert committed(topic) == [b"record"], "this one had happened; only reading tells"


@pytest.mark.parametrize("succeeded_by", [str, other_than], ids=["the same client", "the other client"])
def test_e6_unknown_commit_that_failed_stays_undone_when_a_successor_has_opened(
    make_writer, open_writer, proxy, topic, committed, client, succeeded_by
):
    writer = open_writer(timeouts=WriterTimeouts(commit_s=1.0))
    held = proxy.on(ApiKey.END_TXN, Action.HOLD_AND_RESET, count=100)
    writer.send(topic, b"record")
    try:
        writer.commit()
        pytest.fail("the commit cannot have succeeded")
    except CommitUnknownError:
        writer.close()
    conf = {CLIENT: succeeded_by(client)}
    successor = make_writer(writer.transactional_id, conf=conf)  # past the proxy: an end may still be on its way there
    successor.open()
    successor.send(topic, b"successor", partition=1)
    successor.flush()
    assert held.release() >= 1
    assert successor.state is WriterState.IN_TRANSACTION
    successor.abort()
    assert committed(topic) == []


def test_open_fails_with_a_passing_error_when_the_broker_is_unreachable(make_writer, proxy):
    proxy.pause()
    writer = make_writer(bootstrap=proxy.bootstrap_servers)
    with pytest.raises(WriterOpenError) as failed:
        writer.open(timeout_s=0.5)
    assert failed.value.is_passing
    proxy.resume()
    writer.open(timeout_s=60)
    assert writer.state is WriterState.OPEN


@pytest.mark.parametrize("partition", [0, 1], ids=["same partition", "another partition"])
@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_e5_late_end_tears_no_transaction_when_the_writer_is_replaced(
    open_writer, after_commit, proxy, topic, committed, partition, ending
):
    held = proxy.on(ApiKey.END_TXN, Action.HOLD_AND_RESET)
    writer = open_writer()
    writer.send(topic, b"a1", partition=0)
    writer, first = after_commit(writer, writer.commit, [b"a1"])
    assert held.met == 1
    writer.send(topic, b"b1", partition=partition)
    writer.flush()
    assert held.release() == 1
    writer.send(topic, b"b2", partition=0)
    getattr(writer, ending)()
    assert sorted(committed(topic)) == [*first, *([b"b1", b"b2"] if ending == "commit" else [])]


def test_late_end_tears_a_transaction_of_a_producer_that_violates_e5(kafka, proxy, topic):
    """The test of the test above: without a replacement the same fault makes half a transaction visible."""
    client = ProducerClient(transactional_conf({"bootstrap.servers": proxy.bootstrap_servers}, f"torn-{topic}").conf)
    held = proxy.on(ApiKey.END_TXN, Action.HOLD_AND_RESET)
    client.init_transactions(20)
    client.begin()
    client.produce(topic, b"a1", partition=0)
    client.flush(20)
    client.commit(20)
    client.begin()
    client.produce(topic, b"b1", partition=0)
    client.flush(20)
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        assert held.release() == 1
        # Nobody has asked for a commit of this transaction.
        eventually(lambda: [o.value for o in reader.seen()] == [b"a1", b"b1"])
    client.drop()


def test_e5_late_produce_joins_no_transaction_when_the_writer_is_replaced(
    open_writer, after_commit, proxy, topic, committed
):
    held = proxy.on(ApiKey.PRODUCE, Action.HOLD_AND_RESET)
    writer = open_writer()
    writer.send(topic, b"a1", partition=0)
    writer, first = after_commit(writer, writer.commit, [b"a1"])
    assert held.met == 1
    writer.send(topic, b"b1", partition=0)
    writer.flush()
    held.release()
    writer.commit()
    assert committed(topic) == [*first, b"b1"], "the late copy of a1 was taken into the next transaction"


def test_commit_fails_in_a_finite_time_when_the_broker_is_gone_for_good(open_writer, proxy, topic):
    # A flush may take as long as the transaction has left.
    timeouts = WriterTimeouts(flush_s=0.5, commit_s=0.5, abort_s=0.5)
    writer = open_writer(timeouts=timeouts, conf={"transaction.timeout.ms": 3000})
    writer.send(topic, b"record")
    proxy.pause()
    with pytest.raises((ProduceError, CommitUnknownError)):
        writer.commit()
    writer.abort()
    writer.close()
    proxy.resume()
