"""Who runs what: complete, balanced, sticky."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fencepost.cluster.assignment import Member, assign, kept_back, lost_tasks, same_work, wanted
from fencepost.storage.change import Assignment, TaskId, WorkerAbilities, WorkerAssignment
from fencepost.storage.snapshot import SnapshotBuilder

Work = Mapping[str, int]

MEMBERS = [Member(f"http://w{n}:8083", f"i{n}") for n in range(6)]


@st.composite
def works(draw: st.DrawFn) -> Work:
    return draw(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 6), max_size=8))


def every_task(work: Work) -> list[TaskId]:
    return sorted(TaskId(name, number) for name, count in work.items() for number in range(count))


members = st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True)


def tasks_of(assignment: Assignment) -> list[TaskId]:
    return [task for worker in assignment.workers for task in worker.tasks]


@given(members, works())
def test_every_connector_and_task_is_assigned_once(present: list[Member], work: Work) -> None:
    assignment = assign(present, work, None, 1)
    assert sorted(tasks_of(assignment)) == every_task(work)
    assert sorted(c for w in assignment.workers for c in w.connectors) == sorted(work)


@given(members, works(), members, works())
def test_assignment_is_complete_and_balanced_after_any_earlier_assignment(
    earlier: list[Member], earlier_work: Work, present: list[Member], work: Work
) -> None:
    assignment = assign(present, work, assign(earlier, earlier_work, None, 1), 2)
    assert sorted(tasks_of(assignment)) == every_task(work)
    for sizes in ([len(w.tasks) for w in assignment.workers], [len(w.connectors) for w in assignment.workers]):
        assert max(sizes) - min(sizes) <= 1


@given(members, works(), st.randoms(use_true_random=False))
def test_assignment_does_not_change_when_members_are_reordered(
    present: list[Member], work: Work, random: object
) -> None:
    first = assign(present, work, None, 1)
    shuffled = list(present)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert same_work(first, assign(shuffled, work, first, 2))


@given(members, works())
def test_new_member_only_receives_work_and_nothing_moves_between_others(present: list[Member], work: Work) -> None:
    first = assign(present, work, None, 1)
    newcomer = Member("http://new:8083", "new")
    second = assign([*present, newcomer], work, first, 2)
    before = {task: w.incarnation for w in first.workers for task in w.tasks}
    for worker in second.workers:
        moved_here = [task for task in worker.tasks if before[task] != worker.incarnation]
        assert worker.incarnation == "new" or not moved_here


@given(works())
def test_returning_worker_gets_its_former_work(work: Work) -> None:
    first = assign(MEMBERS[:3], work, None, 1)
    reborn = [Member(MEMBERS[0].url, "reborn"), *MEMBERS[1:3]]
    second = assign(reborn, work, first, 2)
    was, now = first.of("i0"), second.of("reborn")
    assert was is not None
    assert now is not None
    assert (was.tasks, was.connectors) == (now.tasks, now.connectors)


def test_first_assignment_does_not_compare_every_task_with_every_worker() -> None:
    """Members are compared once for each item and level of a heap, not once for each item and member."""
    compared = 0

    class Counted(Member):
        def __lt__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__lt__(other)  # type: ignore[operator]

    workers, tasks = 100, 5000
    present = [Counted(f"http://w{n:03}:8083", f"i{n}") for n in range(workers)]
    first = assign(present, {"a": tasks}, None, 1)
    assert {len(worker.tasks) for worker in first.workers} == {tasks // workers}
    assert compared < 20 * tasks, "100 times as many with a search through all members"


def test_without_members_nothing_is_assigned() -> None:
    assert assign([], {"a": 1}, None, 1) == Assignment(1, ())


def test_worker_that_is_not_ready_gets_connectors_and_no_tasks() -> None:
    ready, starting = Member("http://a:1/", "a"), Member("http://b:1/", "b", is_ready=False)
    connectors = {"c": 2, "d": 2}
    assigned = assign([ready, starting], connectors, None, 1)
    loads = {w.incarnation: (len(w.connectors), len(w.tasks)) for w in assigned.workers}
    assert loads == {"a": (1, 4), "b": (1, 0)}
    then = assign([ready, Member("http://b:1/", "b")], connectors, assigned, 2)
    assert {w.incarnation: len(w.tasks) for w in then.workers} == {"a": 2, "b": 2}


def test_tasks_go_to_workers_that_are_not_ready_when_no_worker_is_ready() -> None:
    starting = Member("http://b:1/", "b", is_ready=False)
    assert len(assign([starting], {"c": 1}, None, 1).workers[0].tasks) == 1


def _snapshot_of_two() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    builder.put_connector("c", {})
    for number in range(2):
        builder.defer_task(TaskId("c", number), {})
    builder.commit_tasks("c", 2, 7)
    for name in ("a", "b"):
        builder.set_incarnation(f"http://{name}:1/", name)
    builder.assigned.put(
        Assignment(1, tuple(WorkerAssignment(n, f"http://{n}:1/", (), (TaskId("c", i),)) for i, n in enumerate("ab")))
    )
    return builder


def test_only_tasks_of_a_worker_that_vanished_without_leaving_are_lost() -> None:
    here = [Member("http://a:1/", "a")]
    builder = _snapshot_of_two()
    assert lost_tasks(builder.freeze(), here) == {TaskId("c", 1)}
    assert lost_tasks(builder.freeze(), []) == set(), "the group is between two states"
    builder.set_incarnation("http://b:1/", None)
    assert lost_tasks(builder.freeze(), here) == set(), "it has said that it leaves"
    again = _snapshot_of_two()
    again.set_incarnation("http://b:1/", "newer")
    assert lost_tasks(again.freeze(), [*here, Member("http://b:1/", "newer")]) == set(), "its successor sees to it"


A, B, C = (Member(f"http://{name}:1/", name) for name in "abc")


def _lost_b() -> tuple[SnapshotBuilder, Assignment]:
    """B has gone without a word, with a connector and a task; what the leader decides then."""
    builder = _snapshot_of_two()
    builder.put_connector("d", {})
    workers = (("c", TaskId("c", 0)), ("d", TaskId("c", 1)))
    builder.assigned.put(
        Assignment(
            1,
            tuple(
                WorkerAssignment(m.incarnation, m.url, (c,), (t,)) for m, (c, t) in zip((A, B), workers, strict=True)
            ),
        )
    )
    return builder, _decided(builder, [A], now_ms=1000)


def _decided(builder: SnapshotBuilder, present: list[Member], now_ms: int, delay_ms: int = 5000) -> Assignment:
    snapshot = builder.freeze()
    waiting = kept_back(snapshot, present, delay_ms, now_ms)
    return assign(present, wanted(snapshot), snapshot.assignment, 2, waiting)


def test_work_of_a_lost_worker_waits_for_its_return() -> None:
    builder, then = _lost_b()
    assert [(w.worker.connectors, w.worker.tasks, w.until_ms) for w in then.waiting] == [
        (("d",), (TaskId("c", 1),), 6000)
    ]
    assert [(w.connectors, w.tasks) for w in then.workers] == [(("c",), (TaskId("c", 0),))]
    builder.assigned.put(then)
    assert _decided(builder, [A], now_ms=5999).waiting == then.waiting, "whoever leads by then"
    assert same_work(then, _decided(builder, [A], now_ms=5999))
    builder.set_incarnation(C.url, C.incarnation)
    assert _decided(builder, [A, C], now_ms=5999).waiting == then.waiting, "a newcomer does not get it"


def test_waiting_work_moves_when_the_delay_is_over_or_zero() -> None:
    builder, then = _lost_b()
    builder.assigned.put(then)
    moved = _decided(builder, [A], now_ms=6000)
    assert (moved.waiting, moved.workers[0].connectors, len(moved.workers[0].tasks)) == ((), ("c", "d"), 2)
    assert _decided(builder, [A], now_ms=1000, delay_ms=0).waiting == ()


def test_returning_worker_gets_the_work_that_waited_for_it() -> None:
    builder, then = _lost_b()
    builder.assigned.put(then)
    builder.set_incarnation(B.url, "reborn", WorkerAbilities(is_ready=False))
    starting = _decided(builder, [A, Member(B.url, "reborn", is_ready=False)], now_ms=2000)
    mine = starting.of("reborn")
    assert mine is not None
    assert (mine.connectors, mine.tasks) == (("d",), ())
    assert [w.worker.tasks for w in starting.waiting] == [(TaskId("c", 1),)], "until it can run tasks"
    builder.assigned.put(starting)
    back = _decided(builder, [A, Member(B.url, "reborn")], now_ms=2000)
    assert back.waiting == ()
    mine = back.of("reborn")
    assert mine is not None
    assert (mine.connectors, mine.tasks) == (("d",), (TaskId("c", 1),))


def test_work_does_not_wait_if_its_worker_left_or_its_connector_was_deleted() -> None:
    builder, then = _lost_b()
    builder.assigned.put(then)
    builder.remove_connector("c")
    assert [(w.worker.connectors, w.worker.tasks) for w in _decided(builder, [A], 2000).waiting] == [(("d",), ())]
    builder.set_incarnation(B.url, None)
    assert _decided(builder, [A], now_ms=2000).waiting == ()


def test_waiting_work_moves_within_the_delay_if_the_old_leaders_clock_was_ahead() -> None:
    builder, then = _lost_b()
    ahead = tuple(replace(each, until_ms=each.until_ms + 3_600_000) for each in then.waiting)
    builder.assigned.put(replace(then, waiting=ahead))
    now = _decided(builder, [A], now_ms=2000)
    assert [each.until_ms for each in now.waiting] == [7000]
    builder.assigned.put(now)
    assert _decided(builder, [A], now_ms=7000).waiting == ()
