"""How the leader's commands become transactions. What is written is applied to a topic in memory."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest

from fencepost.cluster.balance import LostTasks, Roster
from fencepost.cluster.command import PutConnector, PutTaskConfigs, Reassign, RemoveConnector
from fencepost.cluster.errors import (
    AlreadyExistsError,
    BadRequestError,
    NotLeadingError,
    OperationError,
    WriteFailedError,
)
from fencepost.cluster.leader import CommandQueue, Leader
from fencepost.kafka.group.member import Term
from fencepost.storage import records
from fencepost.storage.change import TaskId
from fencepost.storage.fold import apply
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder
from fencepost.testing import eventually
from fencepost.transaction import ProduceError, StaleMemberError, WriterFencedError

TOO_LARGE = ProduceError("Message size too large", is_refused=True, is_batch_too_large=True)
URL, OTHER = "http://a:8083", "http://b:8083"
Lead = Callable[..., Leader]


class Topic:
    """Log and writer in one; `gate` holds commits back, `failures` are those of the next ones."""

    topic = "configs"
    is_struck = False

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        self.transactions: list[list[bytes]] = []
        self.sizes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failures: list[Exception | None] = []
        self._sent: list[records.Encoded] = []
        self._lock = threading.Lock()
        self.put(records.worker_incarnation(URL, "i"))

    def put(self, *encoded: records.Encoded) -> None:
        with self._lock:
            for key, value in encoded:
                apply(self.builder, self.builder.offset, key, value)

    def read_to_end(self, timeout_s: float) -> ClusterSnapshot:
        with self._lock:
            return self.builder.freeze()

    @property
    def snapshot(self) -> ClusterSnapshot:
        return Topic.read_to_end(self, 0)

    def read_past(self, offset: int, timeout_s: float) -> ClusterSnapshot:
        return self.snapshot

    def open(self, *, topic: str) -> None: ...

    def close(self) -> None:
        self._sent.clear()

    def send(self, topic: str, value: bytes | None, *, key: bytes, **_: Any) -> None:
        self._sent.append((key, value))

    def commit(self, **proof: Any) -> None:
        assert proof["group_metadata"] == "proof"
        assert self.gate.wait(60)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.put(*self._sent)
        self.transactions.append([key for key, _ in self._sent])
        self.sizes.append(sum(len(key) + len(value or b"") for key, value in self._sent))
        self._sent.clear()


class Ended:
    """Whoever ends what lost tasks have open: done at once, or when it is `settled`."""

    def __init__(self, *, is_settled: bool = True) -> None:
        self.tasks: list[TaskId] = []
        self.is_settled = is_settled

    def end(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> "Pending":
        assert snapshot.assignment is not None
        held = snapshot.assignment.of("j")
        assert held is not None
        assert set(tasks) == set(held.tasks)
        self.tasks.extend(tasks)
        return Pending(self, frozenset(tasks))


def nothing(snapshot: ClusterSnapshot, alive: Collection[str]) -> set[TaskId]:
    return set()


class Pending:
    def __init__(self, of: Ended, tasks: frozenset[TaskId]) -> None:
        self._of = of
        self.tasks = tasks

    @property
    def is_settled(self) -> bool:
        return self._of.is_settled

    def wait(self) -> None:
        raise AssertionError("the leader's thread waits for nobody's brokers")


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def lead(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lead]:
    """Starts leaders of the workers `urls`, each over a topic; they are stopped in the end."""
    started: list[Leader] = []

    def start(
        topic: Topic,
        urls: Collection[str] = (URL,),
        ended: Ended | None = None,
        *,
        abandoned: Callable[..., set[TaskId]] = nothing,
        roster: Roster | None = None,
        queue: CommandQueue | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> Leader:
        monkeypatch.setattr("fencepost.cluster.leader.TransactionalWriter", lambda *_: topic)
        lost = LostTasks(ended or Ended(), abandoned)
        leader = Leader("g", topic, conf or {}, roster or Roster(lambda: list(urls)), lost, queue or CommandQueue())
        leader.start()
        leader.on_term(Term(1, "proof"))
        started.append(leader)
        return leader

    yield start
    for leader in started:
        leader.stop()


@pytest.fixture
def leader(topic: Topic, lead: Lead) -> Iterator[Leader]:
    """A leader that has kept house once: there is a session key and an assignment."""
    leader = lead(topic)
    eventually(lambda: topic.read_to_end(1).assignment is not None, within_s=60)
    yield leader
    topic.gate.set()


def configure_two_tasks(leader: Leader) -> None:
    """Create connector `c` with two tasks."""
    leader.submit(put("c")).result(60)
    leader.submit(PutTaskConfigs("c", [{"n": "0"}, {"n": "1"}], is_exactly_once=True)).result(60)


def put(name: str, **more: str) -> PutConnector:
    return PutConnector(name, {"name": name, **more}, is_create=True)


def held_back(leader: Leader, topic: Topic) -> Any:
    """Keep the leader in a commit; what is asked meanwhile waits."""
    topic.gate.clear()
    first = leader.submit(put("first"))
    eventually(lambda: bool(topic._sent), within_s=60)
    return first


def test_queued_commands_of_several_connectors_share_one_transaction(leader: Leader, topic: Topic) -> None:
    first = held_back(leader, topic)
    others = [leader.submit(put(f"c{n}")) for n in range(5)]
    before = len(topic.transactions)
    topic.gate.set()
    assert "first" in first.result(60).connectors
    assert all({f"c{n}" for n in range(5)} <= set(each.result(60).connectors) for each in others)
    together = topic.transactions[before + 1]
    configs = [f"connector-c{n}".encode() for n in range(5)]
    placements = [f"fencepost-placement-c{n}".encode() for n in range(5)]
    assert together == [*configs, *placements, b"fencepost-assignment"]
    snapshot = others[0].result()
    assert snapshot.assignment is not None
    assert {f"c{n}" for n in range(5)} <= set(snapshot.assignment.workers[0].connectors)


def test_second_command_of_a_connector_sees_the_first_ones_records(leader: Leader, topic: Topic) -> None:
    first = held_back(leader, topic)
    created, again = leader.submit(put("c")), leader.submit(put("c"))
    configured = leader.submit(PutTaskConfigs("c", [{"n": "0"}], is_exactly_once=True))
    removed = leader.submit(RemoveConnector("c"))
    topic.gate.set()
    first.result(60)
    assert "c" in created.result(60).connectors
    with pytest.raises(AlreadyExistsError):
        again.result(60)
    ready = configured.result(60)
    assert ready.is_ready("c")
    assert ready.assignment is not None
    assert ready.assignment.workers[0].tasks == (TaskId("c", 0),)
    gone = removed.result(60)
    assert "c" not in gone.connectors
    assert gone.assignment is not None
    assert gone.assignment.workers[0].tasks == ()


def test_command_that_cannot_be_encoded_does_not_fail_other_commands(leader: Leader, topic: Topic) -> None:
    """Task configs may contain a file name that is not UTF-8, and they are published repeatedly."""
    first = held_back(leader, topic)
    waiting = [leader.submit(put("bad", file="\udcff")), leader.submit(put("good"))]
    topic.gate.set()
    first.result(60)
    with pytest.raises(OperationError, match="PutConnector"):
        waiting[0].result(60)
    assert "good" in waiting[1].result(60).connectors


def test_refused_command_does_not_fail_other_commands(leader: Leader, topic: Topic) -> None:
    first = held_back(leader, topic)
    refused, accepted = leader.submit(RemoveConnector("unknown")), leader.submit(put("c"))
    topic.gate.set()
    first.result(60)
    with pytest.raises(OperationError, match="unknown not found"):
        refused.result(60)
    assert "c" in accepted.result(60).connectors


def test_failed_transaction_fails_all_its_commands_and_the_next_one_succeeds(leader: Leader, topic: Topic) -> None:
    first = held_back(leader, topic)
    shared = [leader.submit(put(name)) for name in ("c", "d")]
    topic.failures = [None, ProduceError("not now", is_refused=False)]
    topic.gate.set()
    assert "first" in first.result(60).connectors
    for each in shared:
        with pytest.raises(OperationError, match="Failed to write to config topic"):
            each.result(60)
    snapshot = leader.submit(put("e")).result(60)
    assert snapshot.connectors.keys() == {"first", "e"}


def test_fenced_write_fails_and_the_next_write_reclaims_the_id(leader: Leader, topic: Topic) -> None:
    topic.failures = [WriterFencedError("a newer producer")]
    with pytest.raises(WriteFailedError, match="the request can be safely retried"):
        leader.submit(put("c")).result(60)
    assert leader.is_leading
    assert leader.submit(put("c")).result(60).connectors.keys() == {"c"}


def test_unauthorized_write_names_the_missing_rights(leader: Leader, topic: Topic) -> None:
    topic.failures = [ProduceError("TOPIC_AUTHORIZATION_FAILED", is_refused=True, is_denied=True)]
    with pytest.raises(OperationError, match="topic configs, Read on group g and Write on transactional id connect-cl"):
        leader.submit(put("c")).result(60)


def test_new_leader_ends_open_transactions_before_it_reads_the_topic(lead: Lead) -> None:
    """The read would wait for an open transaction until it times out."""
    done: list[str] = []

    class Watched(Topic):
        def open(self, *, topic: str) -> None:
            done.append("open")

        def read_to_end(self, timeout_s: float) -> ClusterSnapshot:
            done.append("read")
            return super().read_to_end(timeout_s)

    watched = Watched()
    lead(watched)
    eventually(lambda: "read" in done, within_s=60)
    assert done[0] == "open"


def test_worker_that_is_not_leader_refuses_commands_at_once(leader: Leader, topic: Topic) -> None:
    leader.on_term(Term(2))
    with pytest.raises(NotLeadingError):
        leader.submit(put("c")).result(60)
    assert "c" not in topic.read_to_end(1).connectors


def test_write_with_a_stale_membership_fails_and_ends_leadership(leader: Leader, topic: Topic) -> None:
    topic.failures = [StaleMemberError("generation 1 is over")]
    with pytest.raises(NotLeadingError):
        leader.submit(put("c")).result(60)
    assert not leader.is_leading
    leader.on_term(Term(3, "proof"))
    assert "c" in leader.submit(put("c")).result(60).connectors


def lead_until_one_is_lost(lead: Lead, topic: Topic, ended: Ended) -> tuple[Leader, tuple[TaskId, ...]]:
    """Lead two workers with a task each until one is lost. Returns the leader, and the lost worker's task."""
    roster = [URL, OTHER]
    topic.put(records.worker_incarnation(OTHER, "j"))
    leader = lead(topic, roster, ended)
    configure_two_tasks(leader)
    eventually(lambda: _tasks(topic, "j") and _tasks(topic, "i"), within_s=60)
    moved = _tasks(topic, "j")
    roster.remove(OTHER)
    leader.reassign(10)
    return leader, moved


def test_tasks_of_a_lost_worker_are_fenced_before_they_move(lead: Lead, topic: Topic) -> None:
    ended = Ended()
    _, moved = lead_until_one_is_lost(lead, topic, ended)
    assert set(ended.tasks) == set(moved)
    assert len(_tasks(topic, "i")) == 2


def test_lost_tasks_require_a_source_of_abandoned_tasks() -> None:
    """Abandoned tasks that are not assigned again are fenced by the leader only."""
    with pytest.raises(TypeError, match="abandoned_tasks"):
        LostTasks(Ended())  # type: ignore[call-arg]


def test_abandoned_tasks_of_lost_workers_are_fenced(lead: Lead, topic: Topic) -> None:
    left, fenced = [{TaskId("gone", 1)}], list[TaskId]()

    class Fences(Ended):
        def end(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> Pending:
            fenced.extend(tasks)
            return Pending(self, frozenset(tasks))

    class Left:
        def abandoned_tasks(self, snapshot: ClusterSnapshot, alive: Collection[str]) -> set[TaskId]:
            return left.pop() if alive and left else set()

    lead(topic, ended=Fences(), abandoned=Left().abandoned_tasks)
    eventually(lambda: fenced == [TaskId("gone", 1)], within_s=60)


def test_leader_accepts_commands_while_tasks_of_a_lost_worker_are_fenced(lead: Lead, topic: Topic) -> None:
    ended = Ended(is_settled=False)
    leader, moved = lead_until_one_is_lost(lead, topic, ended)
    assert ended.tasks == list(moved)
    assert "d" in leader.submit(put("d")).result(60).connectors
    leader.reassign(10)
    assert _tasks(topic, "j") == moved
    assert ended.tasks == list(moved), "begun once"
    ended.is_settled = True
    leader.wake()
    eventually(lambda: len(_tasks(topic, "i")) == 2, within_s=60)


def test_tasks_of_a_worker_that_left_properly_move_without_a_fence(lead: Lead, topic: Topic) -> None:
    ended = Ended()
    topic.put(records.worker_incarnation(OTHER, "j"))
    leader = lead(topic, [URL, OTHER], ended)
    configure_two_tasks(leader)
    eventually(lambda: _tasks(topic, "j"), within_s=60)
    topic.put(records.worker_left(OTHER, "j"))
    leader.reassign(10)
    assert len(_tasks(topic, "i")) == 2
    assert ended.tasks == []


def test_only_task_configs_wait_to_share_a_transaction(lead: Lead, topic: Topic) -> None:
    queue = CommandQueue(tick_s=60.0, company_s=60.0)
    leader = lead(topic, queue=queue)
    leader.submit(put("a")).result(60)
    leader.submit(put("b")).result(60)
    eventually(queue.is_empty)
    before = len(topic.transactions)
    configured = []
    for name in "ab":
        configured.append(leader.submit(PutTaskConfigs(name, [{"n": "0"}], is_exactly_once=True)))
        eventually(queue.is_empty)
    created = leader.submit(put("c"))
    assert all(each.result(60).is_ready(name) for each, name in zip(configured, "ab", strict=True))
    assert "c" in created.result(60).connectors
    assert len(topic.transactions) == before + 1


class Lagging(Topic):
    """Its snapshot is what was read last, as a follower's is; it tells how often the end was asked for."""

    def __init__(self) -> None:
        self.reads = 0
        self.known = ClusterSnapshot()
        super().__init__()

    def read_to_end(self, timeout_s: float) -> ClusterSnapshot:
        self.reads += 1
        return self.read_past(0, timeout_s)

    def read_past(self, offset: int, timeout_s: float) -> ClusterSnapshot:
        self.known = super().read_to_end(timeout_s)
        return self.known

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.known


def test_requested_reassignment_reads_the_topic_to_its_end_first(
    lead: Lead,
) -> None:
    """A worker writes that it leaves right before it asks the leader, so the leader's snapshot may be too old."""
    topic = Lagging()
    topic.put(records.worker_incarnation(OTHER, "j"))
    leader = lead(topic, [URL, OTHER])
    configure_two_tasks(leader)
    assert _tasks(topic, "j")
    reads = topic.reads
    leader.wake()
    topic.put(records.worker_left(OTHER, "j"))
    leader.reassign(10)
    assert len(_tasks(topic, "i")) == 2
    assert topic.reads > reads


def test_new_leader_term_asks_for_the_group_members_again(lead: Lead, topic: Topic) -> None:
    topic.put(records.worker_incarnation(OTHER, "j"))
    asked = threading.Semaphore(0)
    answers = threading.Semaphore(0)
    roster = [URL]

    def members() -> list[str]:
        found = list(roster)
        asked.release()
        assert answers.acquire(timeout=60)
        return found

    leader = lead(topic, roster=Roster(members, good_for_s=60.0), queue=CommandQueue(tick_s=60.0))
    assert asked.acquire(timeout=60)
    roster.append(OTHER)  # it joins while the group's answer is on its way
    leader.on_term(Term(2, "proof"))
    answers.release(100)
    eventually(lambda: _is_assigned(topic, "j"), within_s=60, every_s=0.005)


def _is_assigned(topic: Topic, incarnation: str) -> bool:
    assignment = topic.snapshot.assignment
    return assignment is not None and assignment.of(incarnation) is not None


def _tasks(topic: Topic, incarnation: str) -> tuple[TaskId, ...]:
    assignment = topic.read_to_end(1).assignment
    held = assignment.of(incarnation) if assignment is not None else None
    return held.tasks if held is not None else ()


def test_too_large_config_is_refused_and_other_configs_are_written(leader: Leader, topic: Topic) -> None:
    first = held_back(leader, topic)
    large = leader.submit(put("large", text="x" * 1_500_000))
    small = leader.submit(put("small"))
    topic.gate.set()
    with pytest.raises(
        BadRequestError, match=r"connector-large takes 1,500,\d{3} bytes, and a record of topic configs "
    ):
        large.result(60)
    first.result(60)
    assert set(small.result(60).connectors) == {"first", "small"}


def test_config_refused_by_the_topic_is_a_permanent_error(leader: Leader, topic: Topic) -> None:
    topic.failures = [TOO_LARGE, TOO_LARGE]  # with the new assignment and without it
    with pytest.raises(BadRequestError, match=r"The topic configs refuses.*max\.message\.bytes"):
        leader.submit(put("c")).result(60)


def test_connector_is_deleted_even_if_the_assignment_is_refused(leader: Leader, topic: Topic) -> None:
    leader.submit(put("c")).result(60)
    topic.failures = [TOO_LARGE]
    assert "c" not in leader.submit(RemoveConnector("c")).result(60).connectors
    assert [b"connector-c", b"target-state-c"] in topic.transactions


def test_too_large_assignment_is_reported_until_a_connector_is_deleted(
    lead: Lead, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """No other record can hold the tasks of this connector, so only its deletion helps."""
    leader = lead(topic, conf={"message.max.bytes": 30_000})
    leader.submit(put("large")).result(60)
    leader.submit(put("small")).result(60)
    assert leader.refusal is None
    configured = leader.submit(PutTaskConfigs("large", [{}] * 9000)).result(60)
    assert len(configured.tasks("large")) == 9000, "the command is carried out"
    assert leader.refusal is not None
    assert "fencepost-placement-large takes" in leader.refusal
    assert "30,000" in leader.refusal
    assert "delete it" in leader.refusal
    said = [each for each in caplog.records if "nothing moves" in each.getMessage()]
    assert [each.levelname for each in said] == ["ERROR"], "and it is not said at each look"
    leader.submit(PutTaskConfigs("small", [{}])).result(60)
    assert leader.refusal is not None
    leader.submit(RemoveConnector("large")).result(60)
    assert leader.refusal is None
    assert _tasks(topic, "i") == (TaskId("small", 0),)


def test_18000_tasks_of_a_lost_worker_move(lead: Lead, topic: Topic) -> None:
    """One record with 9,000 connectors of two tasks exceeds Kafka's default record size."""
    name = "connector-with-a-usual-name-{:05}"
    for number in range(9000):
        connector = name.format(number)
        topic.put(
            records.connector_config(connector, {}),
            *(records.task_config(TaskId(connector, task), {}) for task in range(2)),
            records.tasks_commit(connector, 2),
        )
    roster = [URL, OTHER]
    topic.put(records.worker_incarnation(OTHER, "j"))
    leader = lead(topic, roster)
    eventually(lambda: len(_tasks(topic, "j")) == 9000, within_s=60)
    roster.remove(OTHER)
    leader.reassign(60)
    assert len(_tasks(topic, "i")) == 18000
    assert leader.refusal is None
    written = topic.sizes[-1]
    leader.submit(RemoveConnector(name.format(7))).result(60)
    assert topic.sizes[-1] < 1000 < written, "as much is written as has changed"


OLDER = (b"fencepost-worker-" + OTHER.encode(), b'{"incarnation":"j","ready":true}')


def test_worker_of_an_older_version_gets_its_work_in_one_record(lead: Lead, topic: Topic) -> None:
    topic.put(OLDER)
    roster = [URL, OTHER]
    leader = lead(topic, roster)
    configure_two_tasks(leader)
    eventually(lambda: _tasks(topic, "j"), within_s=60)
    assert not any(key.startswith(b"fencepost-placement-") for keys in topic.transactions for key in keys)
    topic.put(records.worker_left(OTHER, "j"))
    leader.reassign(10)
    assert len(_tasks(topic, "i")) == 2
    assert b"fencepost-placement-c" in topic.transactions[-1], "all workers read several records now"
    topic.put((OLDER[0], OLDER[1].replace(b'"j"', b'"k"')))
    eventually(lambda: len(_tasks(topic, "k")) == 1, within_s=60)  # so the way back is possible, too
    assert topic.transactions[-1] == [b"fencepost-assignment"]


def test_older_worker_gets_no_tasks_if_one_record_cannot_hold_the_assignment(
    lead: Lead, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.cluster.command._MOST_IN_ONE", 100)
    topic.put(OLDER)
    leader = lead(topic, [URL, OTHER])
    configure_two_tasks(leader)
    eventually(lambda: len(_tasks(topic, "i")) == 2, within_s=60)
    assert _is_assigned(topic, "j"), "it is waited for where it still has something to end"
    assert _tasks(topic, "j") == ()


def test_idle_leader_computes_the_assignment_only_once(
    lead: Lead, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = []
    decide = Reassign.decide

    def counted(self: Reassign, snapshot: ClusterSnapshot) -> Sequence[records.Encoded]:
        decided.append(snapshot.offset)
        return decide(self, snapshot)

    monkeypatch.setattr(Reassign, "decide", counted)
    leader = lead(topic)
    configure_two_tasks(leader)
    leader.reassign(10)
    count = len(decided)
    for _ in range(5):
        leader.reassign(10)
    assert len(decided) == count
    topic.put(records.worker_incarnation(URL, "later"))
    leader.reassign(10)
    assert len(_tasks(topic, "later")) == 2
