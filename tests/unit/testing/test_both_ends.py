"""One process takes files from the end of the list, the others from its beginning; each file is run once.

A directory whose tests share something is one process's, for as long as there is anything else.
"""

from types import SimpleNamespace
from typing import Any

from support.both_ends import FromBothEnds, next_file


class _Node:
    """A process of xdist's that notes what it is given."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_files_are_handed_out_from_both_ends_and_each_once() -> None:
    tests = [f"{file}.py::test_{number}" for file in "abcdef" for number in range(3)]
    nodes = [_Node("gw0"), _Node("gw1")]
    scheduler = _scheduler(nodes, tests)
    assert [_files(node, tests) for node in nodes] == ["f", "a"]
    while sum(_finish_one(scheduler, node) for node in nodes):
        pass
    assert [_files(node, tests) for node in nodes] == ["fed", "abc"]
    assert sorted(nodes[0].given + nodes[1].given) == list(range(len(tests)))
    assert all(node.shutting_down for node in nodes)


def test_finished_process_takes_the_remaining_files() -> None:
    tests = [f"{file}.py::test_{number}" for file in "abcd" for number in range(3)]
    nodes = [_Node("gw0"), _Node("gw1")]
    scheduler = _scheduler(nodes, tests)
    while _finish_one(scheduler, nodes[0]):
        pass
    assert [_files(node, tests) for node in nodes] == ["dcb", "a"]


def test_a_third_process_begins_with_the_first_files_too_and_goes_on_to_the_end() -> None:
    tests = [f"{file}.py::test_{number}" for file in "abcdef" for number in range(3)]
    nodes = [_Node("gw0"), _Node("gw1"), _Node("gw2")]
    scheduler = _scheduler(nodes, tests)
    while sum(_finish_one(scheduler, node) for node in nodes):
        pass
    assert [_files(node, tests) for node in nodes] == ["fe", "ac", "bd"]
    assert all(node.shutting_down for node in nodes)


def test_directory_with_shared_fixtures_stays_with_one_process() -> None:
    tests = [f"tests/integration/{file}.py::test_{n}" for file in ("a/1", "a/2", "b/3", "b/4", "c/5") for n in range(3)]
    nodes = [_Node("gw0"), _Node("gw1"), _Node("gw2")]
    scheduler = _scheduler(nodes, tests)
    assert sorted(nodes[0].given + nodes[1].given + nodes[2].given) == [0, 1, 2, 6, 7, 8, 12, 13, 14]
    while sum(_finish_one(scheduler, node) for node in nodes[1:]):
        pass
    assert [_files(node, tests) for node in nodes] == ["5", "12", "34"]


def test_idle_process_takes_files_of_the_fullest_directory() -> None:
    left = [f"tests/integration/{file}" for file in ("a/test_1.py", "b/test_2.py", "b/test_3.py")]
    rooms = ["tests/integration/a", "tests/integration/b"]
    assert next_file(left, "tests/docs/test_4.py", rooms, "gw3") == left[2]
    assert next_file(left, "tests/docs/test_4.py", rooms[1:], "gw3") == left[0]


def test_two_processes_begin_with_the_largest_directories() -> None:
    left = [
        f"tests/{file}.py" for file in ("chaos/a", "integration/b/1", "integration/c/2", "integration/c/3", "docs/d")
    ]
    first = {process: next_file(left, "", [], process) for process in ("gw0", "gw1", "gw2", "gw3", "gw4")}
    assert [first[process] for process in ("gw1", "gw2")] == [left[2]] * 2
    assert [first[process] for process in ("gw0", "gw3", "gw4")] == [left[-1], left[0], left[0]]
    assert next_file(left, "", ["tests/integration/c"], "gw2") == left[0]


def _scheduler(nodes: list[_Node], tests: list[str]) -> FromBothEnds:
    option = SimpleNamespace(loadscopereorder=False, maxschedchunk=None)
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: [f"{len(nodes)}*{name}"])
    scheduler = FromBothEnds(config, None)
    for node in nodes:
        scheduler.add_node(node)  # type: ignore[arg-type]
        scheduler.add_node_collection(node, tests)  # type: ignore[arg-type]
    scheduler.schedule()
    return scheduler


def _finish_one(scheduler: FromBothEnds, node: Any) -> bool:
    """Say whether there was one."""
    done = [test for file in scheduler.assigned_work[node].values() for test, is_done in file.items() if is_done]
    if len(done) == len(node.given):
        return False
    scheduler.mark_test_complete(node, node.given[len(done)])
    return True


def _files(node: _Node, tests: list[str]) -> str:
    return "".join(dict.fromkeys(tests[index].partition(".py")[0][-1] for index in node.given))
