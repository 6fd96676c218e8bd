"""Three brokers, of which the first is cut off from the others: it still believes that it leads, and serves clients."""

import time
from contextlib import closing
from functools import partial
from itertools import permutations
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import AnswerError, KafkaUnavailableError, LostError, UnsupportedError
from fencepost.kafka.group import contributors
from fencepost.kafka.read import batch_reader, range_input
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.read.range_input import RangeInput, RangeSilence
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import LogPosition, LogRange
from fencepost.kafka.wire import cluster, coordinators, experience
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster, text_of_id
from fencepost.kafka.wire.coordinators import TRANSACTION
from fencepost.kafka.wire.experience import planned_by_topic
from fencepost.kafka.wire.requests import RequestClient, lock_out_by_request
from fencepost.record import TopicPartition
from support.faked_brokers import TOPIC, TOPIC_ID, FakedBroker, FakedBrokers, FakedConnection

PLACE = TopicPartition(TOPIC, 0)
ORDERS = list(permutations((1, 2, 3)))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> FakedBrokers:
    made = FakedBrokers(
        [
            FakedBroker(1, leader=1, epoch=5, end=100, coordinator=1),
            FakedBroker(2, leader=2, epoch=6, end=120, coordinator=2),
            FakedBroker(3, leader=2, epoch=6, end=110, coordinator=2),
        ]
    )
    for module in (coordinators, cluster):
        monkeypatch.setattr(module, "connect", made.connect)
    monkeypatch.setattr(batch_reader, "answering", lambda connections, timeout_s: list(connections))
    for module in (batch_reader, experience, cluster):
        monkeypatch.setattr(module, "QUIET_S", 0.01)
    return made


@pytest.mark.parametrize("order", ORDERS)
def test_end_of_a_log_is_never_that_of_a_cut_off_broker(brokers: FakedBrokers, order: tuple[int, ...]) -> None:
    for _ in range(5):
        experience._clusters.clear()
        admin = Admin({"bootstrap.servers": brokers.servers(*order)}, timeout_s=5)
        assert admin.offsets.ends([PLACE], read_committed=False) == {PLACE: 120}
        admin.close()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("epoch", "end"), [(2, 50), (3, 50), (4, 90), (5, 90), (6, 120), (7, None)])
def test_end_of_leader_epochs_is_that_of_the_newest_leaders_log(
    brokers: FakedBrokers, order: tuple[int, ...], epoch: int, end: int | None
) -> None:
    """Epoch 3 has written nothing. The broker that is cut off has more of epoch 5, which it led."""
    brokers.brokers[1].begins = {2: 0, 5: 50}
    brokers.brokers[2].begins = {2: 0, 4: 50, 6: 90}
    admin = Admin({"bootstrap.servers": brokers.servers(*order)}, timeout_s=5)
    assert admin.offsets.ends_of_epochs({PLACE: epoch}) == ({} if end is None else {PLACE: end})
    assert admin.offsets.epochs == {PLACE: 6}
    admin.close()


@pytest.mark.parametrize(("leader", "away"), [(2, set()), (-1, {PLACE})])
def test_partition_counts_as_leaderless_only_by_the_newest_metadata(
    brokers: FakedBrokers, leader: int, away: set[TopicPartition]
) -> None:
    for node in (2, 3):
        brokers.brokers[node].leader = leader
    with closing(Admin({"bootstrap.servers": brokers.servers()}, timeout_s=5)) as admin:
        assert admin.offsets.without_leader([PLACE]) == away


def test_partitions_of_a_silent_leader_are_reported_apart(brokers: FakedBrokers) -> None:
    brokers.brokers[2].is_hanging = True
    silent: set[TopicPartition] = set()
    with closing(Admin({"bootstrap.servers": brokers.servers(1, 3)}, timeout_s=0.5)) as admin:
        assert (admin.offsets.ends_of_epochs({PLACE: 5}, silent), silent) == ({}, {PLACE})
        with pytest.raises(KafkaUnavailableError):
            admin.offsets.ends_of_epochs({PLACE: 5})


def test_leader_epochs_are_left_out_when_brokers_lack_the_request(
    brokers: FakedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(_: Any, request: Any, oldest: int, newest: int) -> int:
        if isinstance(request, OffsetForLeaderEpochRequest):
            raise UnsupportedError("the broker has no such request")
        return newest

    monkeypatch.setattr(FakedConnection, "version", version)
    with closing(Admin({"bootstrap.servers": brokers.servers()}, timeout_s=5)) as admin:
        assert admin.offsets.ends_of_epochs({PLACE: 5}) == {}


def test_log_end_is_unavailable_while_only_the_cut_off_broker_answers(brokers: FakedBrokers) -> None:
    brokers.brokers[2].is_hanging = brokers.brokers[3].is_hanging = True
    admin = Admin({"bootstrap.servers": brokers.servers()}, timeout_s=0.5)
    with pytest.raises(KafkaUnavailableError):
        admin.offsets.ends([PLACE], read_committed=False)


def test_log_end_is_known_from_the_only_broker_of_a_cluster(brokers: FakedBrokers) -> None:
    del brokers.brokers[2], brokers.brokers[3]
    admin = Admin({"bootstrap.servers": brokers.servers()}, timeout_s=5)
    assert admin.offsets.ends([PLACE], read_committed=False) == {PLACE: 100}


@pytest.mark.parametrize("order", ORDERS)
def test_records_never_count_as_lost_because_of_a_cut_off_broker(
    brokers: FakedBrokers, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_input, "SURE_S", 0.0)
    silence = RangeSilence({"bootstrap.servers": brokers.servers(*order)}, LogRange(PLACE, 90, 120), 60)
    for _ in range(10):
        assert silence.ask(90) == (0, "")
    silence.close()


def test_short_time_out_of_a_user_does_not_make_a_loss_sure_sooner(
    brokers: FakedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    del brokers.brokers[2], brokers.brokers[3]
    monkeypatch.setattr(range_input, "SURE_S", 1_000.0)
    silence = RangeSilence({"bootstrap.servers": brokers.servers()}, LogRange(PLACE, 90, 120), 0.004)
    for _ in range(10):
        assert silence.ask(90) == (0, "")
        time.sleep(0.002)
    silence.close()


def test_end_of_the_offsets_log_is_that_of_the_present_leader(brokers: FakedBrokers) -> None:
    for _ in range(5):
        experience._clusters.clear()
        client = RequestClient({"bootstrap.servers": brokers.servers()}, timeout_s=5)
        found = client.run("asking", partial(contributors.find, client, "g"))
        assert found is not None
        assert client.run("asking", partial(contributors._edge, client, found, -1)) == 120


@pytest.mark.parametrize("order", ORDERS)
def test_running_reader_leaves_a_broker_that_was_cut_off(brokers: FakedBrokers, order: tuple[int, ...]) -> None:
    for each in brokers.brokers.values():
        each.leader, each.epoch, each.coordinator = 1, 5, 1
    reader = BatchReader({"bootstrap.servers": brokers.servers(*order), "topic.metadata.refresh.interval.ms": 300_000})
    reader.assign({PLACE: LogPosition(100)})
    until_s = time.monotonic() + 30
    while not brokers.brokers[1].asked.count("FetchRequest"):
        reader.read(0.01, 10)
        assert time.monotonic() < until_s
    for node in (2, 3):
        brokers.brokers[node].leader, brokers.brokers[node].epoch = 2, 6
    while not brokers.brokers[2].asked.count("FetchRequest"):
        reader.read(0.01, 10)
        assert time.monotonic() < until_s
    reader.close()


def test_running_reader_leaves_a_broker_that_hangs(brokers: FakedBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "answering", lambda connections, timeout_s: [])
    monkeypatch.setattr(batch_reader, "_LOOK_S", 0.05)
    for each in brokers.brokers.values():
        each.leader, each.epoch = 1, 5
    conf = {"bootstrap.servers": brokers.servers(), "topic.metadata.refresh.interval.ms": 300_000}
    reader = BatchReader(conf)
    reader.assign({PLACE: LogPosition(100)})
    reader.read(0, 10)
    assert reader._asked
    brokers.brokers[1].is_hanging = True
    for node in (2, 3):
        brokers.brokers[node].leader, brokers.brokers[node].epoch = 2, 6
    until_s = time.monotonic() + 30
    while 2 not in reader._asked:
        reader.read(0.01, 10)
        assert time.monotonic() < until_s
    reader.close()


def test_leaders_learned_by_one_client_are_known_to_all_of_the_process(brokers: FakedBrokers) -> None:
    first, second = (Cluster(Access.of({"bootstrap.servers": brokers.servers(*order)}), 300) for order in ORDERS[:2])
    for each in brokers.brokers.values():
        each.leader, each.epoch = 1, 5
    deadline_s = time.monotonic() + 30
    assert first.leaders(TOPIC, deadline_s) == second.leaders(TOPIC, deadline_s) == [1]
    for node in (2, 3):
        brokers.brokers[node].leader, brokers.brokers[node].epoch = 2, 6
    while first.leaders(TOPIC, deadline_s) != [2]:
        time.sleep(0.02)
        first.renew([TOPIC], deadline_s)
    assert second.leaders(TOPIC, deadline_s) == [2]
    assert second.epochs(TOPIC) == [6]


@pytest.mark.parametrize("order", ORDERS)
def test_executor_believes_the_leaders_of_its_plan_before_a_cut_off_broker(
    brokers: FakedBrokers, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = {"bootstrap.servers": brokers.servers(*order)}
    planner = Admin(conf, timeout_s=5)
    planner.offsets.ends([PLACE], read_committed=False)
    planner.close()
    epoch, node = orjson.loads(orjson.dumps(planned_by_topic(conf, [PLACE])))[TOPIC]["0"]
    led: list[list[int]] = []

    class Batches:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def read(self, *_: Any) -> Read:
            made = Cluster(Access.of(conf), 300)
            led.append(made.leaders(TOPIC, time.monotonic() + 30))
            made.close()
            return Read(Fetched(ends={PLACE: 110}))

        def assign(self, _: Any) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(range_input, "BatchReader", Batches)
    for _ in range(5):
        experience._clusters.clear()  # another process
        assert list(RangeInput(conf, LogRange(PLACE, 100, 110, text_of_id(TOPIC_ID), (epoch, node))).batches()) == []
    assert led == [[2]] * 5


def test_coordinator_lookup_uses_another_broker_the_next_time(brokers: FakedBrokers) -> None:
    found = set()
    for _ in range(3):
        made = Cluster(Access.of({"bootstrap.servers": brokers.servers()}), 300)
        found.add(made.coordinators.find(TRANSACTION, "id", time.monotonic() + 30))
        made.close()
    assert 2 in found


def test_lookup_of_an_unavailable_coordinator_opens_few_connections(brokers: FakedBrokers) -> None:
    for each in brokers.brokers.values():
        each.coordinator = -1
    made = Cluster(Access.of({"bootstrap.servers": brokers.servers()}), 300)
    began_s = time.monotonic()
    with pytest.raises(AnswerError):
        made.coordinators.find(TRANSACTION, "id", began_s + 0.5)
    took_s = time.monotonic() - began_s
    made.close()
    assert sum(len(each.asked) for each in brokers.brokers.values()) > 1
    assert brokers.connections <= 3 + took_s / coordinators._MOVES_EVERY_S


def test_holder_is_locked_out_at_the_new_coordinator(brokers: FakedBrokers) -> None:
    brokers.brokers[1].coordinator = 3  # which is not, and says so
    for _ in range(5):
        experience._clusters.clear()
        assert lock_out_by_request({"bootstrap.servers": brokers.servers()}, "id", 30)


def test_coordinator_that_hangs_is_left_for_the_new_one(brokers: FakedBrokers) -> None:
    conf: dict[str, Any] = {"bootstrap.servers": brokers.servers()}
    for each in brokers.brokers.values():
        each.coordinator = 1
    made = Cluster(Access.of(conf), 300)
    deadline_s = time.monotonic() + 30
    node = made.coordinators.find(TRANSACTION, "id", deadline_s)
    connection = made.connection(node, deadline_s)
    brokers.brokers[1].is_hanging = True
    connection.send(None, 0, lambda _: None, deadline_s)
    for broker in (2, 3):
        brokers.brokers[broker].coordinator = 2
    with pytest.raises(LostError, match="another broker has taken over"):
        cluster.take(made, connection, deadline_s)


def test_answer_times_out_after_socket_timeout_ms(brokers: FakedBrokers) -> None:
    for broker in brokers.brokers.values():
        broker.coordinator = 1
    made = Cluster(Access.of({"bootstrap.servers": brokers.servers(), "socket.timeout.ms": 100}), 300)
    deadline_s = time.monotonic() + 600
    connection = made.connection(made.coordinators.find(TRANSACTION, "id", deadline_s), deadline_s)
    brokers.brokers[1].is_hanging = True
    connection.send(None, 0, lambda _: None, deadline_s)
    with pytest.raises(LostError, match="timed out") as caught:
        cluster.take(made, connection, deadline_s)
    assert caught.value.is_late


def test_broker_that_refuses_credentials_is_skipped_once_another_accepts(
    brokers: FakedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing, asked = {1, 3}, []

    def connect(address: Any, *given: Any) -> Any:
        asked.append(address[1])
        if address[1] in refusing:
            raise AnswerError(KafkaError.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate")
        return brokers.connect(address, *given)

    monkeypatch.setattr(coordinators, "connect", connect)
    made = Cluster(Access.of({"bootstrap.servers": brokers.servers(2)}), 300)
    assert made.leaders(TOPIC, time.monotonic() + 30) == [2]
    for _ in range(3):
        made.forget(TOPIC)
        made._any.move_on(at_once=True)
        assert made.leaders(TOPIC, time.monotonic() + 30) == [2]
    assert refusing <= set(asked)
    refusing.add(2)
    made._any.move_on(at_once=True)
    for _ in range(2):  # nobody lets us in: one login to each broker, and later the same
        asked.clear()
        made.forget(TOPIC)
        with pytest.raises(AnswerError, match="SASL"):
            made.leaders(TOPIC, time.monotonic() + 30)
        assert sorted(asked) == [1, 2, 3]


def test_questions_for_any_broker_are_spread_over_all(brokers: FakedBrokers) -> None:
    for each in brokers.brokers.values():
        each.leader, each.epoch = 1, 5
    for _ in range(30):
        made = Cluster(Access.of({"bootstrap.servers": brokers.servers()}), 300)
        made.leaders(TOPIC, time.monotonic() + 30)
        made.close()
    assert all(len(each.asked) == 10 for each in brokers.brokers.values())
