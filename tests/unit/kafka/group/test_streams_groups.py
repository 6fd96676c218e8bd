"""What the answer to a question about a streams group (KIP-1071) says of the topics that it reads."""

from typing import Any

import pytest

from fencepost.kafka.group.schema import StreamsGroupDescribeResponse
from fencepost.kafka.group.subscription import is_still_there, processed_topics

Group = StreamsGroupDescribeResponse.DescribedGroup
Part, Member = Group.Topology.Subtopology, Group.Member


def part(name: str, *topics: str, repartition: tuple[str, ...] = (), changelogs: tuple[str, ...] = ()) -> Any:
    inner = [[Part.TopicInfo(name=each) for each in internal] for internal in (repartition, changelogs)]
    return Part(
        subtopology_id=name, source_topics=[*topics], repartition_source_topics=inner[0],
        state_changelog_topics=inner[1],
    )  # fmt: skip


def member(task: str = "0", next_task: str = "0", **more: Any) -> Any:
    now, then = (
        Member.Assignment(active_tasks=[Member.Assignment.TaskIds(subtopology_id=each, partitions=[0])])
        for each in (task, next_task)
    )
    return Member(member_id="m", assignment=now, target_assignment=then, **more)


def group(parts: list[Any] | None, *members: Any, is_told: bool = True) -> Any:
    """Return a group as it is told, from the bytes of an answer."""
    topology = Group.Topology(epoch=1, subtopologies=parts) if is_told else None
    made = Group(group_id="g", group_state="Stable", topology=topology, members=[*members])
    answer = StreamsGroupDescribeResponse(groups=[made])
    return StreamsGroupDescribeResponse.decode(answer.encode(version=0), version=0).groups[0]


PARTS = [part("0", "a", "b", repartition=("c",)), part("1", repartition=("d",), changelogs=("e",))]


@pytest.mark.parametrize("members", [(), (member(topology_epoch=1), member("1", topology_epoch=1))])
def test_a_streams_group_reads_the_sources_and_changelogs_of_its_topology(members: tuple[Any, ...]) -> None:
    doubts: dict[str, str] = {}
    assert processed_topics(group(PARTS, *members), doubts) == {"a", "b", "c", "d", "e"}
    assert doubts == {}


@pytest.mark.parametrize("is_told", [True, False])
def test_streams_group_without_members_or_topology_adds_no_topics(is_told: bool) -> None:
    doubts: dict[str, str] = {}
    assert processed_topics(group(None, is_told=is_told), doubts) == set()
    assert doubts == {}


@pytest.mark.parametrize(
    ("described", "why"),
    [
        (group(None, member(topology_epoch=1)), "does not report"),
        (group([], member(topology_epoch=1)), "does not report"),
        (group(None, member(topology_epoch=1), is_told=False), "does not report"),
        (group(PARTS, member(topology_epoch=1), member(topology_epoch=2)), "not all of its members"),
        (group(PARTS, member(topology_epoch=1, is_classic=True)), "not all of its members"),
        (group([*PARTS, part("2")], member(topology_epoch=1)), "no sources by name"),
        (group(PARTS, member("2", topology_epoch=1)), "tasks"),
        (group(PARTS, member("0", "2", topology_epoch=1)), "tasks"),
    ],
)
def test_streams_group_that_may_read_undescribed_topics_raises_a_doubt(described: Any, why: str) -> None:
    doubts: dict[str, str] = {}
    processed_topics(described, doubts)
    assert why in doubts["g"]


@pytest.mark.parametrize(("code", "why"), [(29, "a topic that it reads"), (30, "may not Describe it")])
def test_group_hidden_from_this_principal_raises_a_doubt(code: int, why: str) -> None:
    doubts: dict[str, str] = {}
    assert not is_still_there(Group(group_id="g", error_code=code, group_state=""), doubts)
    assert why in doubts["g"]
