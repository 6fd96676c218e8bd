"""Kafka's own classes read what is written here, with the same result."""

import random

import pytest
from flow import Flow

from fencepost.builtin.mirror.checkpoint.checkpoints import Translation
from fencepost.builtin.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from fencepost.builtin.mirror.setting.mirror_settings import policy_of
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.java_program import MirrorTools

PLACE = TopicPartition("t", 0)


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> MirrorTools:
    return MirrorTools(tmp_path_factory.mktemp("tools"))


def line(kind: str, record: OffsetSync | Checkpoint | Heartbeat) -> str:
    return f"{kind}\t{record.key().hex()}\t{record.value().hex()}"


def test_records_are_read_and_written_alike(tools: MirrorTools) -> None:
    records = [
        ("sync", OffsetSync(TopicPartition("töpic", 1 << 30), 0, (1 << 63) - 1)),
        ("sync", OffsetSync(TopicPartition("", 0), -1, -1)),
        ("checkpoint", Checkpoint("a group", PLACE, 1 << 40, 7, "ñote 🙂")),
        ("checkpoint", Checkpoint("", TopicPartition("", 0), 0, 0, "")),
        ("heartbeat", Heartbeat("wést", "east", 1_700_000_000_000)),
    ]
    found = tools.answers([line(kind, record) for kind, record in records])
    assert found == [f"{record.key().hex()}\t{record.value().hex()}" for _, record in records]


def test_topics_have_the_same_names(tools: MirrorTools, seed: int) -> None:
    parts = ["A", "B", "t", "heartbeats", "checkpoints", "internal", "mm2-offset-syncs", "mm2", "__x", "", ""]
    draw = random.Random(seed)
    asked, expected = [], []
    for _ in range(600):
        name, separator = draw.choice(["Default", "Identity"]), draw.choice([".", "_", "::"])
        is_internal = draw.choice(["true", "false"])
        topic = draw.choice([".", "_", "-", separator]).join(draw.choices(parts, k=draw.randint(1, 4)))
        given = {
            "source.cluster.alias": "A",
            "replication.policy.separator": separator,
            "replication.policy.internal.topic.separator.enabled": is_internal,
        }
        policy = policy_of("k", name, given)
        source, upstream = policy.topic_source(topic), policy.upstream_topic(topic)
        says = (policy.is_heartbeats_topic(topic), policy.is_checkpoints_topic(topic), policy.is_internal_topic(topic))
        names = [
            policy.format_remote_topic("A", topic),
            "null" if source is None else source,
            "null" if upstream is None else upstream,
            policy.original_topic(topic),
            policy.offset_syncs_topic("A"),
            policy.checkpoints_topic("A"),
            *(str(said).lower() for said in says),
        ]
        asked.append(f"names\t{name}\t{separator}\t{is_internal}\t{topic}")
        expected.append("\t".join(names))
    found = tools.answers(asked)
    wrong = [(a, f, e) for a, f, e in zip(asked, found, expected, strict=True) if f != e]
    assert wrong == [], f"seed {seed}"


def test_mirrormakers_store_translates_our_syncs_to_no_later_offsets_than_ours(tools: MirrorTools, seed: int) -> None:
    draw = random.Random(seed)
    asked, ours, worlds = [], [], []
    for _ in range(20):
        went, boundaries, end = _mirrored(draw)
        translation = Translation()
        asked.append("begin")
        ours.append("begun")
        for upstream in boundaries:
            sync = OffsetSync(PLACE, upstream, went[upstream])
            translation.add(sync)
            asked.append(line("note", sync))
            ours.append("noted")
        for position in range(end + 3):
            asked.append(f"translate\t{position}")
            at = translation.downstream(PLACE, position)
            ours.append("unknown" if at is None else str(at))
            worlds.append((len(asked) - 1, went, boundaries, position))
    theirs = tools.answers(asked)
    for index, went, boundaries, position in worlds:
        context = f"seed {seed}: {asked[index]}: {ours[index]} and {theirs[index]}"
        if theirs[index] == "unknown":
            continue
        at = int(theirs[index])
        assert [up for up, down in went.items() if up >= position and down < at] == [], context
        assert ours[index] != "unknown", context
        assert int(ours[index]) >= at, context
        if position > boundaries[-1]:
            assert int(ours[index]) == at, context


def _mirrored(draw: random.Random) -> tuple[dict[int, int], list[int], int]:
    """Return where records went, the last one of each transaction, and the end of the source."""
    went: dict[int, int] = {}
    boundaries: list[int] = []
    source = target = 0
    for _ in range(draw.randint(1, 60)):
        for _ in range(draw.randint(1, 8)):
            source += draw.choice([0, 0, 0, 1, 5])
            went[source] = target
            source, target = source + 1, target + 1
        boundaries.append(source - 1)
        source += draw.randint(0, 2)
        target += draw.randint(0, 1)
    return went, boundaries, source


def test_clients_find_clusters_and_positions_as_with_mirrormaker(tools: MirrorTools, flow: Flow) -> None:
    topic, group = flow.topic(partitions=2), flow.group()
    for partition in (0, 1):
        flow.sync(topic, (9, 20), (19, 31), partition=partition)
    flow.commit(group, topic, 10, 20, note="mine")
    flow.start("Heartbeat")
    flow.start("Checkpoint", groups=flow.groups, emit__checkpoints__interval__seconds="1")
    flow.await_positions(group, topic, (10, 21))
    flow.await_positions(group, topic, (20, 32), partition=1)
    with flow.at_target("heartbeats") as reader:
        eventually(lambda: any(flow.source_alias.encode() in (o.key or b"") for o in reader.seen()), within_s=60)
    flow.target.topic(flow.remote("heartbeats"))  # where the heartbeats of the source are mirrored to
    servers, remote = flow.target.bootstrap, flow.remote(topic)
    upstream, hops, topics, offsets = tools.answers(
        [
            f"upstream\t{servers}",
            f"hops\t{servers}\t{flow.source_alias}",
            f"topics\t{servers}",
            f"offsets\t{servers}\t{flow.source_alias}\t{group}",
        ]
    )
    assert flow.source_alias in upstream
    assert hops == "1"
    assert flow.checkpoints_topic in topics
    assert offsets == f"{{{remote}-0=21/mine, {remote}-1=32/mine}}"
