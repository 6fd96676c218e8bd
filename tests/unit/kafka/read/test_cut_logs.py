"""Where a member whose client fetches reads on if logs were cut while the group did not read."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fencepost.api import RetriableError
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.read import client_fetcher, doubt, member_client
from fencepost.kafka.read.client_fetcher import ClientFetcher
from fencepost.kafka.read.doubt import look_at
from fencepost.kafka.read.group_batches import BatchFetcher
from fencepost.kafka.read.group_input import SubscribedTopics
from fencepost.kafka.read.known_positions import KnownPositions
from fencepost.kafka.read.member_client import MemberClient
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset, LogPosition
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)
ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
Committed = Callable[..., GroupOffset]


class Admin:
    """Of a cluster with one log, in which earlier epochs end at `ends`, one after the other; the last one stays."""

    topic_id = ID
    begin = 0
    is_led = True

    def __init__(self, *ends: int | None) -> None:
        self._ends = list(ends)
        self.asked: list[int] = []  # the epochs
        self.epochs = {PLACE: 7}  # of the leader
        self.topics = SimpleNamespace(get_all=lambda names: {name: SimpleNamespace(id=self.topic_id) for name in names})
        self.offsets = self
        self.silent: set[TopicPartition] = set()

    def ends_of_epochs(self, epochs: Mapping[Any, int], silent: set[Any]) -> dict[Any, int]:
        self.asked += epochs.values()
        silent |= self.silent & epochs.keys()
        epochs = {place: epoch for place, epoch in epochs.items() if place not in silent}
        end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        return {} if end is None else dict.fromkeys(epochs, end)

    def without_leader(self, places: Iterable[Any]) -> set[Any]:
        return set() if self.is_led else set(places)

    def starts(self, places: Iterable[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, self.begin)

    def cluster_id(self) -> str:
        return "here"

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubt, "SURE_S", 0.02)


def committed(
    offset: int = 1000, *, read_to: int | None = None, id_: str = ID, epoch: int = 5, cluster: str = "here"
) -> GroupOffset:
    past = "" if read_to is None else f',"fencepost.read_to":[{read_to},{epoch}],"fencepost.cluster":"{cluster}"'
    note = f'{{"fencepost.topic_id":"{id_}"{past}}}'
    return GroupOffset(*PLACE, offset, note, epoch if read_to is None else -1)


def starts(monkeypatch: pytest.MonkeyPatch, admin: Admin, offset: GroupOffset) -> dict[TopicPartition, int]:
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    return dict(look_at({}, [PLACE], {PLACE: offset}).starts)


def test_reading_continues_where_a_log_was_cut_that_has_grown_since(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(900)
    assert starts(monkeypatch, admin, committed()) == {PLACE: 900}
    assert len(admin.asked) > 3


def test_cut_log_without_its_kept_part_is_read_from_the_log_start(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(900)
    admin.begin = 950
    assert starts(monkeypatch, admin, committed()) == {PLACE: 950}


@pytest.mark.parametrize("end", [1000, 1200, None])
def test_a_log_is_not_cut_if_the_epoch_ends_past_the_offset(monkeypatch: pytest.MonkeyPatch, end: int | None) -> None:
    """None: the leader knows no newer epoch."""
    admin = Admin(end)
    assert starts(monkeypatch, admin, committed()) == {}
    assert admin.asked == [5]


@pytest.mark.parametrize(("led", "is_away"), [(4, True), (5, False), (-1, False)])
def test_a_log_is_not_read_from_an_older_leader(monkeypatch: pytest.MonkeyPatch, led: int, is_away: bool) -> None:
    """It was deposed, and the newest leader may have a log that was cut. -1: brokers do not support the question."""
    admin = Admin(None)
    admin.epochs = {PLACE: led}
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    looked = look_at({}, [PLACE], {PLACE: committed()})
    assert (looked.starts, set(looked.away)) == ({}, {PLACE} if is_away else set())


def test_cut_denied_by_another_broker_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(900, 1200)
    assert starts(monkeypatch, admin, committed()) == {}
    assert admin.asked == [5, 5]


@pytest.mark.parametrize(("end", "begins"), [(1000, {}), (995, {PLACE: 995}), (990, {PLACE: 990})])
def test_markers_of_a_newer_leader_are_not_taken_for_a_cut(
    monkeypatch: pytest.MonkeyPatch, end: int, begins: dict[TopicPartition, int]
) -> None:
    """Nothing but these were between the last record and the offset. To read them again repeats no record."""
    admin = Admin(end)
    assert starts(monkeypatch, admin, committed(read_to=990)) == begins
    assert admin.asked == [5]


def test_a_cut_below_the_last_record_is_found_although_markers_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert starts(monkeypatch, Admin(980), committed(read_to=990)) == {PLACE: 980}


@pytest.mark.parametrize("offset", [committed(id_=OTHER_ID), committed(epoch=-1), GroupOffset(*PLACE, 1000, "", 5)])
def test_epochs_are_not_compared_without_the_id_of_the_present_topic(
    monkeypatch: pytest.MonkeyPatch, offset: GroupOffset
) -> None:
    """A topic that was created again has epochs of its own; a mirror copies metadata without epochs."""
    admin = Admin(900)
    assert starts(monkeypatch, admin, offset) == {}
    assert admin.asked == []


def test_client_with_unsupported_settings_reads_without_comparing_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise KafkaRequestError("no such mechanism", KafkaError._INVALID_ARG)

    monkeypatch.setattr(doubt, "Admin", refused)
    assert look_at({}, [PLACE], {PLACE: committed()}).starts == {}


class Assignment:
    """Of a member of a group."""

    def __init__(self, resets_to: str = "earliest") -> None:
        self.begins: dict[TopicPartition, int] = {}
        self.paused: frozenset[TopicPartition] = frozenset()
        self.calls: list[tuple[str, Any]] = []  # to the client
        self.places: frozenset[TopicPartition] = frozenset()  # whose topics brokers are asked about

        def call(name: str) -> Callable[..., None]:
            return lambda what: self.calls.append((name, dict(what) if isinstance(what, dict) else len(list(what))))

        consumer = SimpleNamespace(resume=call("resume"), poll=lambda _: None)
        self.client = SimpleNamespace(
            conf={}, group="g", error=None, consumer=consumer, pause=call("pause"), seek=call("seek")
        )
        self.starts = SimpleNamespace(known=KnownPositions(), restarts={}, resets_of=lambda _: resets_to, committed={})
        self.starts.drop = lambda place: self.starts.committed.pop(place)


def test_a_cut_is_logged_as_an_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: Admin(900))
    assignment: Any = Assignment()
    assert ClientFetcher(assignment).starts([PLACE], {PLACE: committed()}) == {PLACE: 900}
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert "offset 1000 of t-0, whose log was cut at 900" in caplog.text
    assert assignment.starts.known.at(PLACE, 1000) is None


def test_a_cut_fails_the_task_if_auto_offset_reset_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: Admin(900))
    assignment: Any = Assignment("error")
    with pytest.raises(KafkaRequestError, match="was cut at offset 900"):
        ClientFetcher(assignment).starts([PLACE], {PLACE: committed()})


def test_a_log_that_was_not_cut_keeps_its_leader_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the next commit says it again, also if no record comes."""
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: Admin(1200))
    assignment: Any = Assignment()
    ClientFetcher(assignment).starts([PLACE], {PLACE: committed(read_to=990)})
    assert assignment.starts.known.to_commit(PLACE, 1000) == committed(read_to=990)


@pytest.mark.parametrize(("end", "goes_to"), [(1200, {}), (900, {PLACE: 900})])
def test_partition_without_a_leader_is_not_read_until_a_leader_is_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: int, goes_to: dict[TopicPartition, int]
) -> None:
    """The others of the member are read meanwhile."""
    admin, assignment = Admin(end), Assignment()
    admin.is_led = False
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    assignment.starts.committed = {PLACE: committed()}
    assignment.begins = {PLACE: 1000}
    fetcher = ClientFetcher(assignment)  # type: ignore[arg-type]
    assert fetcher.starts([PLACE], {PLACE: committed()}) == {}
    fetcher.begin({PLACE: 1000})
    assert assignment.calls[-1] == ("pause", 1)
    assert "does not read t-0 yet" in caplog.text
    for _ in range(2):
        fetcher.resume([PLACE])  # as after a pause of the task
        assert list(fetcher.chunks(0.0, 1)) == []
        fetcher._look_s = 0.0
    assert ("resume", 1) not in assignment.calls
    admin.is_led = True
    assert list(fetcher.chunks(0.0, 1)) == []
    assert assignment.calls[-2:] == [("seek", goes_to), ("resume", 1)]
    assert assignment.begins == {PLACE: 1000} | goes_to


def test_partitions_are_read_although_the_leader_of_another_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that the client cannot reach, for hours: only its own partitions wait."""
    admin, other, offset = Admin(900), TopicPartition("t", 1), committed()
    admin.silent = {other}
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    looked = look_at({}, [PLACE, other], {PLACE: offset, other: offset._replace(partition=1)})
    assert (looked.starts, set(looked.away)) == ({PLACE: 900}, {other})


def test_an_offset_of_the_task_stays_when_a_leader_knows_only_other_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, assignment = Admin(995), Assignment()
    admin.is_led = False
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    assignment.starts.committed = {PLACE: committed(read_to=990)}
    assignment.begins = {PLACE: 1500}
    fetcher = ClientFetcher(assignment)  # type: ignore[arg-type]
    fetcher.starts([PLACE], {PLACE: committed(read_to=990)})
    fetcher.begin({PLACE: 1500})
    admin.is_led = True
    assert list(fetcher.chunks(0.0, 1)) == []
    assert (assignment.calls[-1], assignment.begins) == (("resume", 1), {PLACE: 1500})


def test_records_skipped_by_the_task_are_not_taken_for_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has an offset of its own, at the end of the log: what comes before is not known to be markers."""
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: Admin(1200))
    for does_begin in (True, False):
        assignment: Any = Assignment()
        fetcher, known = ClientFetcher(assignment), assignment.starts.known
        fetcher.starts([PLACE], {PLACE: committed()})
        fetcher.begin({PLACE: 1500 if does_begin else 1000})
        if not does_begin:
            fetcher.seek({PLACE: 1500})
        known.read_past({PLACE: 1500})
        assert known.to_commit(PLACE, 1500) == GroupOffset(*PLACE, 1500)


def test_other_partitions_are_read_at_least_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """While brokers take long to say that one partition still has no leader."""
    admin, assignment, now = Admin(1200), Assignment(), SimpleNamespace(s=100.0)
    admin.is_led = False
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    assignment.starts.committed, assignment.begins = {PLACE: committed()}, {PLACE: 1000}
    fetcher = ClientFetcher(assignment)  # type: ignore[arg-type]
    fetcher.starts([PLACE], {PLACE: committed()})
    asked: list[float] = []

    def slow(places: Iterable[Any]) -> set[Any]:
        asked.append(now.s)
        now.s += 30
        return set(places)

    monkeypatch.setattr(admin, "without_leader", slow)
    monkeypatch.setattr(client_fetcher, "time", SimpleNamespace(monotonic=lambda: now.s))
    for _ in range(40):
        assert list(fetcher.chunks(0.0, 1)) == []
        now.s += 1
    assert asked == [100.0, 160.0]


def test_a_partition_that_comes_back_with_a_leader_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client keeps it paused while another member has it."""
    admin, assignment = Admin(1200), Assignment()
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    fetcher = ClientFetcher(assignment)  # type: ignore[arg-type]
    for admin.is_led, last in ((False, "pause"), (True, "resume")):
        fetcher.starts([PLACE], {PLACE: committed()})
        fetcher.begin({PLACE: 1000})
        assert assignment.calls[-1] == (last, 1)
        fetcher.let_go([PLACE])


def test_batch_reader_compares_epochs_by_itself_without_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, assignment = Admin(900), Assignment()
    admin.is_led = False
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    fetcher = BatchFetcher(assignment, SimpleNamespace())  # type: ignore[arg-type]
    assert fetcher.starts([PLACE], {PLACE: committed(read_to=990)}) == {PLACE: 990}
    assert assignment.starts.known.at(PLACE, 990) == LogPosition(990, ID, 5)


@pytest.mark.parametrize("is_answered", [False, True])
def test_client_compares_epochs_that_the_batch_reader_could_not(
    monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """It takes over with no epoch, if a broker is away: the log may be cut below the position."""
    admin, assignment = Admin(900), Assignment()
    admin.is_led = False
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    reader: Any = SimpleNamespace(knows_topics=False, close=lambda: None, known_ends=dict)
    reader.assign = reader.unassign = lambda _: None
    assignment.starts.committed, assignment.begins = {PLACE: committed()}, {PLACE: 1000}
    fetcher = BatchFetcher(assignment, reader)  # type: ignore[arg-type]
    fetcher.starts([PLACE], {PLACE: committed()})
    fetcher.begin({PLACE: 1000})
    if is_answered:
        fetcher._record_positions(Fetched(epochs={PLACE: (1010, 6)}))
    fetcher._switch_to_client("a broker is away")
    assert (("resume", 1) in assignment.calls) == is_answered
    admin.is_led = True
    assert list(fetcher._by_client.chunks(0.0, 1)) == []
    assert assignment.calls[-1] == (("seek", {PLACE: 1010}) if is_answered else ("resume", 1))
    assert (("seek", {PLACE: 900}) in assignment.calls) != is_answered


@pytest.mark.parametrize(("cluster", "is_former"), [("here", True), ("elsewhere", False)])
def test_an_offset_that_a_mirror_has_copied_is_not_of_a_former_topic(
    monkeypatch: pytest.MonkeyPatch, cluster: str, is_former: bool
) -> None:
    """Its metadata have an epoch if markers followed the last record. The group goes on here, at this offset."""
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: Admin(1200))
    copied = committed(read_to=990, id_=OTHER_ID, cluster=cluster)
    assert (PLACE in look_at({}, [PLACE], {PLACE: copied}).replaced) == is_former
    assert PLACE in look_at({}, [PLACE], {PLACE: committed(id_=OTHER_ID)}).replaced


def test_client_takes_over_partitions_of_a_former_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no offset to compare: the partition begins anew, and the reader has no answer yet."""
    admin, assignment = Admin(1200), Assignment()
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    reader: Any = SimpleNamespace(knows_topics=False, close=lambda: None, known_ends=dict)
    reader.assign = reader.unassign = lambda _: None
    former = committed(read_to=990, id_=OTHER_ID)
    assignment.starts.committed = {PLACE: former}
    fetcher = BatchFetcher(assignment, reader)  # type: ignore[arg-type]
    assert fetcher.starts([PLACE], {PLACE: former}) == {}
    assert assignment.starts.committed == {}
    assignment.begins = {PLACE: 0}
    fetcher.begin({PLACE: 0})
    fetcher._switch_to_client("a broker is away")
    assert list(fetcher._by_client.chunks(0.0, 1)) == []
    assert ("resume", 1) in assignment.calls


def test_client_begins_at_the_reset_in_a_topic_recreated_before_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader was to begin after the last record, before markers that the group's offset is past."""
    admin, assignment = Admin(1200), Assignment()
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    admin.is_led = False
    reader: Any = SimpleNamespace(knows_topics=True, close=lambda: None, known_ends=dict)
    reader.assign = reader.unassign = lambda _: None
    found = committed(read_to=990)
    assignment.starts.committed = {PLACE: found}
    assignment.starts.reset = lambda _: 0
    fetcher = BatchFetcher(assignment, reader)  # type: ignore[arg-type]
    assignment.begins = dict(fetcher.starts([PLACE], {PLACE: found}))
    assert assignment.begins == {PLACE: 990}
    fetcher.begin({PLACE: 990})
    fetcher._switch_to_client("a broker is away")
    admin.is_led, admin.topic_id = True, OTHER_ID
    assert list(fetcher._by_client.chunks(0.0, 1)) == []
    assert ("seek", {PLACE: 0}) in assignment.calls


def test_a_reader_that_names_topics_notices_that_one_was_created_again() -> None:
    """A broker of Kafka 3.0 has ids, and takes no fetch by them: it goes on at the same offset."""
    assignment: Any = Assignment()
    assignment.places = frozenset({PLACE})
    ids = {PLACE: ID}
    reader: Any = SimpleNamespace(knows_topics=False, topic_id=lambda place: ids[place])
    fetcher = BatchFetcher(assignment, reader)
    fetcher._record_positions(Fetched(epochs={PLACE: (10, 1)}))
    ids[PLACE] = OTHER_ID  # as after a seek, for which the reader looks it up
    assert fetcher.topic_ids() == {PLACE: ID}
    fetcher.ensure_same({PLACE.topic: ID})
    with pytest.raises(RetriableError, match="created again"):
        fetcher.ensure_same({PLACE.topic: OTHER_ID})
    reader.knows_topics = True
    fetcher.ensure_same({PLACE.topic: OTHER_ID})
    assert fetcher.topic_ids() == {}


def test_client_does_not_take_over_while_a_log_seems_to_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no epochs: it would go on past the cut. The reader asks again, and has no answer yet."""
    assignment: Any = Assignment()
    reads = [Read(lost={PLACE}, cut={PLACE: LogPosition(900, ID, 4)})]
    reader: Any = SimpleNamespace(knows_topics=False, close=lambda: None, known_ends=dict)
    reader.assign = reader.unassign = lambda _: None
    reader.read = lambda *_: reads.pop(0) if reads else Read()
    assignment.client.edges = lambda *_: (0, 2000)
    fetcher = assignment.fetcher = BatchFetcher(assignment, reader)
    fetcher._next = {PLACE: LogPosition(1000, ID, 5)}
    for _ in range(2):
        list(fetcher.chunks(0.0, 1))
    fetcher._preference.why = "a broker is away"
    list(fetcher.chunks(0.0, 1))
    assert assignment.fetcher is fetcher
    fetcher._record_positions(Fetched(epochs={PLACE: (1010, 5)}))
    list(fetcher.chunks(0.0, 1))
    assert assignment.fetcher is fetcher._by_client


def test_position_in_a_deleted_topic_keeps_the_id_of_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic may be created again: a reader that asks by name goes on in the middle of it."""
    admin, assignment = Admin(1200), Assignment()
    admin.topics.get_all = lambda names: {}
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: admin)
    fetcher = BatchFetcher(assignment, SimpleNamespace())  # type: ignore[arg-type]
    assert fetcher.starts([PLACE], {PLACE: committed(read_to=990)}) == {PLACE: 990}
    assert assignment.starts.known.at(PLACE, 990) == LogPosition(990, ID, 5)


@pytest.mark.parametrize("conf", [{}, {"security.protocol": "SSL", "ssl.ca.location": "/"}])
def test_topics_are_not_looked_at_with_settings_of_librdkafka_alone(conf: dict[str, str]) -> None:
    """It takes a directory of certificates. Without a broker, nothing is committed."""
    client = MemberClient({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **conf}, {})
    with nullcontext() if conf else pytest.raises(KafkaUnavailableError):
        assert client.topic_ids(["t"], 0.1, is_sure=False) == {"t": ""}
    client.close(is_subscribed=False)


@pytest.mark.parametrize("ids", [(ID, ""), ("", ID)])
def test_a_broker_without_topic_ids_does_not_say_that_a_topic_is_another(
    monkeypatch: pytest.MonkeyPatch, ids: tuple[str, str]
) -> None:
    """As while the brokers of a cluster are replaced by newer ones, one after the other."""
    answers = [SimpleNamespace(id=each) for each in ids]
    admin = SimpleNamespace(topics=SimpleNamespace(get_all=lambda *_, **__: {"t": answers.pop(0)}), close=lambda: None)
    for module in (doubt, member_client):
        monkeypatch.setattr(module, "Admin", lambda *_, **__: admin)
    monkeypatch.setattr(doubt, "_starts", lambda *_: {})
    admin.offsets, admin.cluster_id = SimpleNamespace(without_leader=lambda _: set(), epochs={}), lambda: "c"
    assignment: Any = Assignment()
    client = MemberClient({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, {})
    fetcher = ClientFetcher(assignment)
    fetcher.starts([PLACE], {})
    assignment.places = frozenset({PLACE})
    fetcher.ensure_same(client.topic_ids({PLACE.topic}, 1.0, is_sure=False))
    assert not answers
    client.close(is_subscribed=False)


def test_unknown_ids_of_topics_are_asked_for_before_the_commit() -> None:
    """As at an assignment that no broker answered: there is nothing yet to compare with."""
    answers = [{"t": ""}, {"t": ID}, {"t": ID}, {"t": OTHER_ID}]
    assignment: Any = Assignment()
    assignment.places = frozenset({PLACE})
    assignment.client.topic_ids = lambda *_, **__: answers.pop(0)
    assignment.client.consumer = SimpleNamespace(subscribe=lambda *_, **__: None)
    assignment.client.group = "g"
    assignment.take = assignment.revoke = assignment.lose = None
    assignment.fetcher = ClientFetcher(assignment)
    topics = SubscribedTopics(assignment, ["t"])
    topics.check()()  # the cluster has no ids: old brokers
    topics.check()()
    assert len(answers) == 2
    topics.check()()
    check = topics.check()
    with pytest.raises(RetriableError, match="created again"):
        check()


@pytest.mark.parametrize(("end", "commits"), [(900, []), (995, [GroupOffset(*PLACE, 1500)])])
def test_an_offset_of_the_task_is_not_committed_before_a_cut_log_is_read(
    monkeypatch: pytest.MonkeyPatch, end: int, commits: list[GroupOffset]
) -> None:
    """It would hide the cut from the next start, to which the task says the same offset."""
    monkeypatch.setattr(doubt, "Admin", lambda *_, **__: Admin(end))
    assignment: Any = Assignment()
    ClientFetcher(assignment).starts([PLACE], {PLACE: committed(read_to=990)})
    assert assignment.starts.known.commits({PLACE: 1500}) == commits
