"""`fencepost mirror status`: the progress of the flows of a file, or of running workers."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from fencepost.builtin.mirror.dedicated import MirrorFile
from fencepost.builtin.mirror.formats import FormatError, OffsetSync
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.builtin.mirror.source.position import gap_of_offset, place_within, position_of
from fencepost.cli.cluster.migration import TypedFlow
from fencepost.cli.connect import Connect, Json, access
from fencepost.cli.output import aligned, print_json
from fencepost.cluster.command import now_ms
from fencepost.config import ConfigError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.setting.client_settings import admin_conf, range_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.record import TopicPartition
from fencepost.secret.redaction import HIDDEN
from fencepost.storage.internal_topics import READ_S
from fencepost.storage.offset_topic import StoredOffset
from fencepost.storage.offset_view import OffsetTopic, OffsetTopics
from fencepost.storage.status_topic import StatusTopic
from fencepost.telemetry.traces import reason_in
from fencepost.worker.plan import class_of
from fencepost.worker.supervision.offset import read_offsets

_ROLE = "status"
_READER = "fencepost-mirror-status"  # a group without commits
_HEADINGS = ("topic", "remote topic", "partitions", "behind", "for", "last sync")


@dataclass(frozen=True)
class FlowDescription:
    """What workers report about a connector that copies records."""

    name: str
    config: Mapping[str, str]
    offsets: Sequence[StoredOffset]
    state: str
    tasks: Sequence[str]
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class TopicStatus:
    """One topic of a flow.

    Attributes:
        behind: How many offsets of the source are not mirrored yet; None if the topic is not at the target.
        behind_ms: The age of the oldest of these records; 0 if nothing is behind, None if none of it is a record.
        sync_ms: The time since the last offset sync; None if there was none.
    """

    topic: str
    remote: str
    partitions: int
    behind: int | None
    behind_ms: int | None
    sync_ms: int | None


@dataclass(frozen=True)
class FlowStatus:
    """One flow.

    Attributes:
        note: Why there are no topics, if they cannot be read.
        remarks: Why the connector or a task has failed, or a problem of a running one, such as topics that it skips.
    """

    flow: str
    connector: str
    state: str
    tasks: Sequence[str]
    gaps: Sequence[Mapping[str, Any]]
    topics: Sequence[TopicStatus]
    note: str = ""
    remarks: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "flow": self.flow,
            "connector": self.connector,
            "state": self.state,
            "tasks": list(self.tasks),
            "remarks": list(self.remarks),
            "gaps": [dict(gap) for gap in self.gaps],
            "topics": [vars(topic) for topic in self.topics],
            **({"note": self.note} if self.note else {}),
        }


def status(where: str, *, as_json: bool) -> None:
    """Print it. Raises ConfigError, or Kafka's errors."""
    is_url = where.startswith(("http://", "https://"))
    described = of_workers(where) if is_url else of_file(Path(where))
    found = [looked_at(one) for one in described]
    if as_json:
        print_json([each.to_json() for each in found], indent=2)
        return
    for each in found:
        typer.echo("\n".join(shown(each)))
    if not found:
        typer.echo(f"{where}: no connector of a mirror copies records there")


def of_file(path: Path) -> Iterator[FlowDescription]:
    """Yield the state of each enabled flow from the topics at the target."""
    for flow in MirrorFile.load(path).flows():
        if flow.choice.is_enabled:
            yield _described(TypedFlow.of(flow, flow.choice.connector_type, None))


def _described(side: TypedFlow) -> FlowDescription:
    settings = side.settings
    shared = OffsetTopic(settings.config.offset_storage_topic, settings.reader_conf())
    statuses = StatusTopic(settings.reader_conf(), settings.producer_conf(), settings.config.status_storage_topic)
    try:
        with closing(OffsetTopics(shared)) as topics:
            offsets = read_offsets(settings, topics, side.name, side.config, READ_S).offsets
        statuses.start(READ_S)
        state = _state(side, statuses)
        said = statuses.table.tasks(side.name).values()
        own = statuses.table.status(side.name)
    except MissingTopicError:
        return FlowDescription(side.name, side.config, (), "NEVER RUN", ())
    finally:
        statuses.stop()
    remarks = _remarks([None if own is None else own.trace, *(task.trace for task in said)])
    return FlowDescription(side.name, side.config, offsets, state, [task.state.value for task in said], remarks)


def _remarks(traces: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(reason_in(trace) for trace in traces if trace and trace.strip()))


def _state(side: TypedFlow, statuses: StatusTopic) -> str:
    """Return a connector's state; statuses of workers that are gone do not count."""
    if not side.has_workers():
        return "NO WORKER"
    own = statuses.table.status(side.name)
    return "UNKNOWN" if own is None else own.state.value


def of_workers(url: str) -> Iterator[FlowDescription]:
    """Yield what the workers at an address report. Raises ConfigError if they do not answer."""
    with Connect(access(url)) as connect:
        found = connect.get("connectors", expand=["info", "status"])
        for name, said in sorted(found.items()):
            if _class_of(said["info"]["config"]) is not None:
                yield _of_answers(name, said, connect.get("connectors", name, "offsets"))


def _of_answers(name: str, said: Json, positions: Json) -> FlowDescription:
    status = said.get("status", {})
    own, tasks = status.get("connector", {}), status.get("tasks", [])
    return FlowDescription(
        name,
        said["info"]["config"],
        [StoredOffset(one["partition"], one["offset"]) for one in positions["offsets"]],
        own.get("state", "UNKNOWN"),
        [task["state"] for task in tasks],
        _remarks([each.get("trace") for each in (own, *tasks)]),
    )


def _class_of(config: Mapping[str, str]) -> type[MirrorSourceConnector] | None:
    try:
        found = class_of(config)
    except ConfigError:
        return None
    return found if issubclass(found, MirrorSourceConnector) else None


def looked_at(described: FlowDescription) -> FlowStatus:
    """Return the progress of a flow, with requests to both clusters."""
    cls = _class_of(described.config)
    assert cls is not None
    connector = cls(described.config)
    gaps = [gap for one in described.offsets if (gap := gap_of_offset(one.partition or {}, one.offset)) is not None]
    at = {place_within(one.partition or {}, connector.source_cluster_alias): one.offset for one in described.offsets}
    positions = {
        place: position.offset
        for place, offset in at.items()
        if place is not None and (position := position_of(offset)) is not None
    }
    hidden = sorted(key for key, value in described.config.items() if value == HIDDEN)
    note = f"topics not shown, because workers hide {', '.join(hidden)}: use the file instead" if hidden else ""
    topics = [] if hidden else list(_topics(connector, positions))
    return FlowStatus(
        connector.flow, described.name, described.state, described.tasks, gaps, topics, note, described.remarks
    )


def _topics(connector: MirrorSourceConnector, positions: Mapping[TopicPartition, int]) -> Iterator[TopicStatus]:
    selection, syncs = connector.selection(), _last_syncs(connector)
    with (
        closing(connector.admin(FlowEnd.SOURCE, _ROLE)) as source,
        closing(connector.admin(FlowEnd.TARGET, _ROLE)) as target,
    ):
        chosen = source.topics.get_all(selection.chosen(source.topics.names()))
        there = target.topics.get_all([selection.remote_topic(topic) for topic in chosen])
        waiting = _waiting(source, {name: topic.partitions for name, topic in chosen.items()}, positions)
    for name in sorted(chosen):
        remote, left = selection.remote_topic(name), waiting[name]
        behind = sum(end - first for first, end in left.values()) if remote in there else None
        age_ms = _age_of_oldest(connector, name, left) if behind else behind
        sync_ms = None if name not in syncs else max(0, now_ms() - syncs[name])
        yield TopicStatus(name, remote, chosen[name].partitions, behind, age_ms, sync_ms)


def _waiting(
    source: Admin, partitions: Mapping[str, int], positions: Mapping[TopicPartition, int]
) -> dict[str, dict[int, tuple[int, int]]]:
    """Return what is not mirrored yet, by topic and partition: first offset and end."""
    places = [(topic, number) for topic, count in partitions.items() for number in range(count)]
    starts, ends = source.offsets.starts(places), source.offsets.ends(places, read_committed=True)
    waiting: dict[str, dict[int, tuple[int, int]]] = {topic: {} for topic in partitions}
    for topic, number in places:
        first = max(positions.get(TopicPartition(topic, number), 0), starts[topic, number])
        if first < ends[topic, number]:
            waiting[topic][number] = (first, ends[topic, number])
    return waiting


def _age_of_oldest(connector: MirrorSourceConnector, topic: str, waiting: Mapping[int, tuple[int, int]]) -> int | None:
    """Return the age of the oldest waiting record; None if there are only markers, or aborted records."""
    conf = range_conf(connector.client(FlowEnd.SOURCE, ClientKind.CONSUMER, _ROLE), _READER).conf
    browser = TopicBrowser(conf, topic)
    first = (next(browser.read({number: one}), None) for number, one in waiting.items())
    times = [record.timestamp_ms for record in first if record is not None and record.timestamp_ms is not None]
    return max(0, now_ms() - min(times)) if times else None


def _last_syncs(connector: MirrorSourceConnector) -> dict[str, int]:
    cluster, topic = connector.offset_syncs_cluster(), connector.offset_syncs_topic()
    last: dict[str, int] = {}

    def note(record: LogRecord) -> None:
        try:
            name = OffsetSync.decode(record.key, record.value).topic_partition.topic
        except FormatError:
            return
        last[name] = max(last.get(name, 0), record.timestamp_ms)

    with closing(connector.admin(cluster, _ROLE)) as admin:
        if admin.topics.partitions(topic) is None:
            return {}
    with closing(LogReader(admin_conf(connector.client(cluster, ClientKind.ADMIN, _ROLE)).conf, topic)) as reader:
        reader.read_to_end(READ_S, note)
    return last


def shown(status: FlowStatus) -> Iterator[str]:
    """Yield the lines of a flow."""
    yield f"{status.flow}  {status.connector}  {status.state}  {_counted(status.tasks)}"
    yield from status.remarks
    for gap in status.gaps:
        yield f"gap: {json.dumps(gap)}"
    if status.note:
        yield status.note
    if status.topics:
        yield from aligned([_HEADINGS, *(_row(topic) for topic in status.topics)])
    yield ""


def _counted(states: Iterable[str]) -> str:
    states = sorted(states)
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    return f"tasks: {', '.join(counts) or 'none'}"


def _row(topic: TopicStatus) -> tuple[str, ...]:
    behind = "not at the target" if topic.behind is None else str(topic.behind)
    return topic.topic, topic.remote, str(topic.partitions), behind, _time(topic.behind_ms), _time(topic.sync_ms)


def _time(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.1f} s"
