"""Who runs what: complete, balanced, sticky."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.cluster.assignment import Member, assign, same_work
from fencepost.storage.change import Assignment
from fencepost.storage.ids import TaskId

Work = Mapping[str, list[TaskId]]

MEMBERS = [Member(f"http://w{n}:8083", f"i{n}") for n in range(6)]


@st.composite
def works(draw: st.DrawFn) -> Work:
    counts = draw(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 6), max_size=8))
    return {name: [TaskId(name, n) for n in range(count)] for name, count in counts.items()}


members = st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True)


def tasks_of(assignment: Assignment) -> list[TaskId]:
    return [task for worker in assignment.workers for task in worker.tasks]


@settings(max_examples=40, deadline=None)
@given(members, works())
def test_everything_is_assigned_once(present: list[Member], work: Work) -> None:
    assignment = assign(present, work, None, 1)
    assert sorted(tasks_of(assignment)) == sorted(task for tasks in work.values() for task in tasks)
    assert sorted(c for w in assignment.workers for c in w.connectors) == sorted(work)


@settings(max_examples=40, deadline=None)
@given(members, works(), members, works())
def test_an_assignment_is_complete_and_balanced_whatever_was_before(
    earlier: list[Member], earlier_work: Work, present: list[Member], work: Work
) -> None:
    assignment = assign(present, work, assign(earlier, earlier_work, None, 1), 2)
    assert sorted(tasks_of(assignment)) == sorted(task for tasks in work.values() for task in tasks)
    for sizes in ([len(w.tasks) for w in assignment.workers], [len(w.connectors) for w in assignment.workers]):
        assert max(sizes) - min(sizes) <= 1


@settings(max_examples=40, deadline=None)
@given(members, works(), st.randoms(use_true_random=False))
def test_nothing_moves_without_need(present: list[Member], work: Work, random: object) -> None:
    first = assign(present, work, None, 1)
    shuffled = list(present)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert same_work(first, assign(shuffled, work, first, 2))


@settings(max_examples=40, deadline=None)
@given(members, works())
def test_no_more_moves_than_a_newcomer_needs(present: list[Member], work: Work) -> None:
    first = assign(present, work, None, 1)
    newcomer = Member("http://new:8083", "new")
    second = assign([*present, newcomer], work, first, 2)
    before = {task: w.incarnation for w in first.workers for task in w.tasks}
    for worker in second.workers:
        moved_here = [task for task in worker.tasks if before[task] != worker.incarnation]
        assert worker.incarnation == "new" or not moved_here


@settings(max_examples=40, deadline=None)
@given(works())
def test_a_worker_that_came_back_gets_what_it_had(work: Work) -> None:
    first = assign(MEMBERS[:3], work, None, 1)
    reborn = [Member(MEMBERS[0].url, "reborn"), *MEMBERS[1:3]]
    second = assign(reborn, work, first, 2)
    was, now = first.of("i0"), second.of("reborn")
    assert was is not None
    assert now is not None
    assert (was.tasks, was.connectors) == (now.tasks, now.connectors)


def test_without_members_nothing_is_assigned() -> None:
    assert assign([], {"a": [TaskId("a", 0)]}, None, 1) == Assignment(1, ())
