"""The batch client on three brokers with three replicas: leaders and coordinators move, brokers are killed.

Nothing is lost, doubled or blocked, and every outcome is what it seemed to be. What brokers themselves have lost, both
readers tell.
"""

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.read import range_input
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.client_reader import ClientReader
from fencepost.kafka.read.plan_input import PlanInput
from fencepost.kafka.read.plan_reader import PlanReader
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.setting.client_settings import plan_conf, range_conf, transactional_conf
from fencepost.kafka.value.position import GapKind, GroupOffset, LogPosition, LogRange
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    TransactionalWriter,
    WriterFencedError,
    WriterOpenError,
)
from support.brokers import COORDINATORS, IN_SYNC, Brokers
from support.clients import use_version
from support.long_form import IS_LONG

PARTITIONS, RECORDS = 3, 9
ROUNDS = 6 if IS_LONG else 1
VERSIONS = (1, 2) if IS_LONG else (2,)
WITHIN_S = 180
QUICK = {"batch.num.messages": "2", "request.timeout.ms": "3000"}


class Outcome(Enum):
    COMMITTED = auto()
    NOT_COMMITTED = auto()
    UNKNOWN = auto()


class Load:
    """One transaction after the other, each with records for all partitions and its number as a group's offset.

    No number is written twice, whatever has become of it.
    """

    def __init__(self, servers: str, topic: str, conf: Mapping[str, str] = QUICK) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self.errors: list[str] = []
        self._servers = servers
        self._topic = topic
        self._conf = conf
        self._is_over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def await_commits(self, count: int = 3) -> None:
        """Wait until so many more transactions are committed."""
        before = self._commits()
        self._await(lambda: self._commits() >= before + count)

    def await_trouble(self) -> None:
        """Wait until one more transaction has failed, or a producer was not let begin one."""
        before = len(self.errors)
        self._await(lambda: len(self.errors) > before)

    def end(self) -> None:
        """End the last transaction, and whatever was left open before it."""
        self.__exit__()
        assert self._failure is None, self._failure
        self.opened().close()

    def _await(self, is_there: Callable[[], bool]) -> None:
        def look() -> bool:
            assert self._failure is None, self._failure
            return is_there()

        try:
            eventually(look, within_s=WITHIN_S)
        except AssertionError:
            print(*self.errors, sep="\n")
            raise

    def _commits(self) -> int:
        return list(self.outcomes.values()).count(Outcome.COMMITTED)

    def _run(self) -> None:
        writer = None
        try:
            while not self._is_over.is_set():
                writer = writer or self.opened()
                number = len(self.outcomes) + 1
                self.outcomes[number] = outcome = self.attempt(writer, number)
                if outcome is not Outcome.COMMITTED or writer.is_struck:
                    writer.abort()
                    writer.close()
                    writer = None
        except Exception as error:
            self._failure = error
        finally:
            if writer is not None:
                writer.close()

    def attempt(self, writer: TransactionalWriter, number: int) -> Outcome:
        offset = GroupOffset(self._topic, 0, number)
        try:
            for value in written(number):
                for partition in range(PARTITIONS):
                    writer.send(self._topic, value, partition=partition)
            writer.commit(group_offsets=[offset], group_metadata=memberless(self._topic))
            return Outcome.COMMITTED
        except (ProduceError, WriterFencedError) as error:
            self.errors.append(str(error))
            return Outcome.NOT_COMMITTED
        except CommitUnknownError as error:
            self.errors.append(str(error))
            return Outcome.UNKNOWN

    def opened(self) -> TransactionalWriter:
        """Open a writer, while brokers agree on who leads."""
        given = {"bootstrap.servers": self._servers, "client": "batch"}
        conf = {**transactional_conf(given, self._topic).conf, **self._conf}
        writer = TransactionalWriter(conf, self._topic)

        def is_open() -> bool:
            try:
                writer.open(20)
            except WriterOpenError as error:
                self.errors.append(str(error))
                if error.is_passing:
                    return False
                raise
            return True

        eventually(is_open, within_s=WITHIN_S)
        return writer


def written(number: int) -> list[bytes]:
    """Return the values of a transaction, for each partition the same."""
    return [b"%d-%d" % (number, index) for index in range(RECORDS)]


def check(load: Load, servers: str, topic: str) -> Counter[Outcome]:
    """Compare what a reader of committed records sees with the outcomes as they seemed. Returns how many of each."""
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for seen in CommittedReader(servers, [topic]).read_all(WITHIN_S):
        values[seen.partition].append(seen.value or b"")
    visible = sorted({int(value.split(b"-")[0]) for value in values[0]})
    whole = [value for number in visible for value in written(number)]
    assert values == [whole] * PARTITIONS, "lost, doubled, torn or out of order"
    by_outcome = {each: {n for n, outcome in load.outcomes.items() if outcome is each} for each in Outcome}
    assert by_outcome[Outcome.COMMITTED] <= set(visible)
    assert not by_outcome[Outcome.NOT_COMMITTED] & set(visible)
    assert group_offset(servers, topic) == visible[-1]
    return Counter(load.outcomes.values())


def group_offset(servers: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": topic})
    try:
        [found] = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=60)
        return int(found.offset)
    finally:
        consumer.close()


# --- faults ---------------------------------------------------------------------------------------------------------


def leaders_move(brokers: Brokers, load: Load, topic: str, chosen: random.Random) -> None:
    for partition in range(PARTITIONS):
        brokers.lead(other_than(brokers.leader_of(topic, partition), chosen), topic, partition)
        load.await_commits()


def coordinators_move(brokers: Brokers, load: Load, topic: str, chosen: random.Random) -> None:
    for internal in COORDINATORS:
        target = chosen.choice((1, 2, 3))
        for step in (0, 1):  # whoever it was, it is another one once
            brokers.lead((target + step) % 3 + 1, internal)
            load.await_commits()


def a_leader_is_killed(brokers: Brokers, load: Load, topic: str, chosen: random.Random) -> None:
    victim = brokers.leader_of(topic, chosen.randrange(PARTITIONS))
    brokers.kill(victim)
    load.await_commits()
    brokers.start(victim)
    load.await_commits()


def replicas_are_missing(brokers: Brokers, load: Load, topic: str, chosen: random.Random) -> None:
    admin = Admin({"bootstrap.servers": brokers.bootstrap_servers})
    assert not admin.configs.alter({topic: {IN_SYNC: "3"}})
    victim = brokers.leader_of(topic, chosen.randrange(PARTITIONS))
    brokers.kill(victim)
    load.await_trouble()  # where records were taken before, but not by all, their transaction cannot even be ended
    brokers.start(victim)
    load.await_commits()
    assert not admin.configs.alter({topic: {IN_SYNC: None}})


def other_than(broker: int, chosen: random.Random) -> int:
    return chosen.choice([each for each in (1, 2, 3) if each != broker])


FAULTS = (leaders_move, coordinators_move, replicas_are_missing, *([a_leader_is_killed] if IS_LONG else []))


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with Brokers() as running:
        yield running


@pytest.mark.chaos
def test_a_topic_that_was_created_can_be_used_at_once_on_every_broker(brokers: Brokers) -> None:
    """Each hears of it by itself: of 150 topics 14 were unknown to a leader, and a worker could not start for it."""
    with contextlib.closing(Admin({"bootstrap.servers": brokers.bootstrap_servers})) as admin:
        for number in range(60 if IS_LONG else 20):
            name = f"used-at-once-{number}"
            admin.topics.create(name, partitions=5, replication=3)
            ends = admin.offsets.ends([(name, partition) for partition in range(5)], read_committed=False)
            assert set(ends.values()) == {0}


@pytest.mark.chaos
def test_a_coordinator_moved_between_transactions_is_no_strike_in_version_1(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_version(1, monkeypatch)
    Admin({"bootstrap.servers": brokers.bootstrap_servers}).topics.create("moved", partitions=3, replication=3)
    load = Load(brokers.bootstrap_servers, "moved", {})  # which answers in its own time
    writer = load.opened()
    for number, leader in enumerate((1, 2, 3), 1):
        brokers.lead(leader, COORDINATORS[0])
        assert load.attempt(writer, number) is Outcome.COMMITTED, load.errors
    assert not writer.is_struck
    writer.close()


@pytest.mark.chaos
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("version", VERSIONS)
def test_e21_records_arrive_once_with_true_outcomes_while_brokers_move_and_die(
    brokers: Brokers, version: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"FENCEPOST_CHAOS_SEED={seed}")
    use_version(version, monkeypatch)
    chosen, servers, topic = random.Random(seed), brokers.bootstrap_servers, f"version-{version}"
    Admin({"bootstrap.servers": servers}).topics.create(topic, partitions=PARTITIONS, replication=3)
    with Load(servers, topic) as load:
        load.await_commits()
        for _ in range(ROUNDS):
            for fault in FAULTS:
                print(f"{fault.__name__}: {len(load.outcomes)} transactions, {len(load.errors)} errors")
                fault(brokers, load, topic, chosen)
        load.end()
    print(check(load, servers, topic), *load.errors, sep="\n")
    assert load.errors


@pytest.mark.chaos
@pytest.mark.timeout(2_400)
def test_a_committed_record_is_not_taken_for_lost_while_the_watermark_lags(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader is killed right after it has acknowledged a record. Its successor has the record, and does not show it
    before all replicas are in sync again: a reader of that range has to wait, and finds it.
    """
    monkeypatch.setattr(range_input, "SURE_S", 1.0)
    servers, place, rounds = brokers.bootstrap_servers, TopicPartition("lagging", 0), 20 if IS_LONG else 1
    made = NewTopic(place.topic, num_partitions=1, replication_factor=3, config={IN_SYNC: "3"})
    client = AdminClient({"bootstrap.servers": servers})
    client.create_topics([made])[place.topic].result(60)
    conf = range_conf({"bootstrap.servers": servers}, "test").conf

    def read(start: int, end: int, idle_s: float) -> list[bytes]:
        reader = RangeInput(conf, LogRange(place, start, end), idle_s=idle_s)
        return [value for batch in reader.batches() for value in batch.column("value").to_pylist()]

    lagged = number = 0
    while number < rounds or lagged < 2:  # the others may hear of the record in time
        victim = brokers.leader_of(place.topic)
        brokers.await_heirs(victim)
        write(servers, place, b"%d" % number, partial(brokers.kill, victim, is_last=True))
        try:
            assert read(number, number + 1, idle_s=6.0) == [b"%d" % number]
        except ReadTimeoutError:
            lagged += 1
        brokers.start(victim)
        assert read(0, number + 1, idle_s=WITHIN_S) == [b"%d" % each for each in range(number + 1)]
        number += 1
        assert number < 5 * rounds + 20, f"the high watermark lagged {lagged} times in {number}"
    print(f"the high watermark lagged {lagged} times in {number}")


def write(servers: str, place: TopicPartition, value: bytes, then: Callable[[], None]) -> None:
    """Write one record, and call `then` at the moment at which all replicas have it."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    errors: list[Any] = []

    def told(error: Any, _: Any) -> None:
        errors.append(error and error.str())  # see `_is_taken` of test_traps
        if error is None:
            then()

    producer.produce(place.topic, value, partition=place.partition, on_delivery=told)
    producer.flush(WITHIN_S)
    assert errors == [None]


@pytest.mark.chaos
def test_a_log_cut_by_an_unclean_election_is_a_gap_although_it_has_grown_again(
    brokers: Brokers,
) -> None:
    """Both readers know the epoch of what they have read. The offsets 10 to 19 are of other records afterwards.

    Who goes on at a position later sees it by the position's epoch.
    """
    place = TopicPartition("cut", 0)
    leader, behind = 1, 2
    servers = brokers.bootstrap_servers
    client = AdminClient({"bootstrap.servers": servers})
    unclean = {"unclean.leader.election.enable": "true"}
    made = NewTopic(place.topic, num_partitions=1, replica_assignment=[[leader, behind]], config=unclean)
    client.create_topics([made])[place.topic].result(60)
    eventually(lambda: brokers.leader_of(place.topic) == leader, within_s=WITHIN_S)
    admin = Admin({"bootstrap.servers": servers})
    conf = plan_conf({"bootstrap.servers": servers, "fetch.max.wait.ms": "20"}).conf
    inputs = [PlanInput(conf, admin, {place: None}, reader=made(conf)) for made in (ClientReader, BatchReader)]
    values: list[list[bytes | None]] = [[] for _ in inputs]

    def is_read(is_enough: Callable[[PlanInput], object]) -> bool:
        for input_, of_input in zip(inputs, values, strict=True):
            with contextlib.suppress(KafkaUnavailableError):
                of_input.extend(input_.poll(0.02, 500).values)
        return all(is_enough(each) for each in inputs)

    def found_by(maker: Callable[[Any], PlanReader], position: LogPosition) -> GapKind | None:
        """Return what is wrong with a position, if anything; else it has been read on from."""
        late = PlanInput(conf, admin, {place: position}, reader=maker(conf))

        def has_begun() -> object:
            with contextlib.suppress(KafkaUnavailableError):
                return len(late.poll(0.02, 500)) or late.gaps
            return False

        try:
            eventually(has_begun, within_s=WITHIN_S, every_s=0)
            return late.gaps[place].kind if late.gaps else None
        finally:
            late.close()

    def in_sync() -> list[int]:
        found: list[int] = client.list_topics(place.topic, timeout=10).topics[place.topic].partitions[0].isrs
        return found

    try:
        kept, lost, later = ([b"%s %d" % (name, n) for n in range(10)] for name in (b"kept", b"lost", b"later"))
        send(servers, place.topic, kept)
        eventually(lambda: in_sync() == [leader, behind], within_s=WITHIN_S)
        brokers.kill(behind)
        eventually(lambda: in_sync() == [leader], within_s=WITHIN_S)
        send(servers, place.topic, lost)
        eventually(lambda: is_read(lambda each: each.positions.get(place) == 20), within_s=WITHIN_S, every_s=0)
        brokers.kill(leader, is_last=True)
        brokers.start(behind)
        eventually(lambda: brokers.leader_of(place.topic) == behind, within_s=WITHIN_S)
        send(servers, place.topic, later * 3)
        assert all(each.epoch(place) >= 0 for each in inputs)
        for each in inputs:
            for offset, kind in ((20, GapKind.DIVERGED), (10, None)):
                known = LogPosition(offset, each.topic_id(place.topic), each.epoch(place))
                assert [found_by(maker, known) for maker in (ClientReader, BatchReader)] == [kind] * 2
        eventually(lambda: is_read(lambda each: each.gaps), within_s=WITHIN_S, every_s=0)
        for input_, of_input in zip(inputs, values, strict=True):
            (gap,) = input_.gaps.values()
            assert (gap.kind, gap.position, gap.next_offset, gap.end) == (GapKind.DIVERGED, 20, 10, 40)
            assert of_input == [*kept, *lost]
            input_.go_on(place, gap.next_offset)
        eventually(lambda: is_read(lambda each: each.positions.get(place) == 40), within_s=WITHIN_S, every_s=0)
        assert [of_input[20:] for of_input in values] == [later * 3] * 2
    finally:
        for input_ in inputs:
            input_.close()
        admin.close()
        brokers.restore()


def send(servers: str, topic: str, values: list[bytes]) -> None:
    """Write values to the first partition, in order."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WITHIN_S) == 0
