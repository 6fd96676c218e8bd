"""One process takes files from the end of the list, the others from its beginning; each file is run once."""

from types import SimpleNamespace
from typing import Any

from support.both_ends import FromBothEnds


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


def test_who_is_through_takes_what_is_left() -> None:
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
    return "".join(dict.fromkeys(tests[index][0] for index in node.given))
