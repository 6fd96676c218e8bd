"""Moving the offsets of a sink (KIP-875): those of its consumer group. On the leader, but for reading them.

Order: 1 it is stopped, by the newest config topic ▸ 2 its tasks have ended, or their time to do so is up ▸ 3 the
connector itself is asked ▸ 4 members that tasks of killed processes have left in the group are taken out of it ▸ 5 it
still is stopped, in the same life ▸ 6 the group is changed, which its coordinator refuses while a task is a member. A
new connector that is told where to begin (KIP-995) is not there yet, in 1 and 5, and its config is written last.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from fencepost.api import ConfigError, SinkConnector, TopicPartition
from fencepost.cluster.command import EnsureAbsent, EnsureStopped, PutConnector, Standing
from fencepost.cluster.errors import BadRequestError, NothingToAlterError, OperationError
from fencepost.cluster.info import ConnectorOffset
from fencepost.config.raw import RawConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.dead_members import take_out_dead_members
from fencepost.kafka.group.group_offsets import GroupInUseError, GroupOffsets
from fencepost.record.java_text import java_text
from fencepost.retention.reading import reading
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset_change import DONE, FRAMEWORK_ONLY, Lead, ask_connector
from fencepost.worker.operation.written_offsets import Wanted, Written, left, refused, write
from fencepost.worker.settings import WorkerSettings, own_group, sink_client_id

log = logging.getLogger(__name__)

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_ASK_S = 30.0
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_RESET = "reset"
_REFUSED = (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError, ConfigError)
_ZOMBIES = (
    "Failed to {0} consumer group offsets for connector {1} either because its tasks haven't stopped completely yet or "
    "the connector was resumed before the request to {0} its offsets could be successfully completed. If the connector "
    "is in a stopped state, this operation can be safely retried. If it doesn't eventually succeed, the Connect "
    "cluster may need to be restarted to get rid of the zombie sink tasks."
)


class SinkOffsets:
    """Reads and changes where sinks stand."""

    def __init__(
        self,
        settings: WorkerSettings,
        find: Callable[[str], type[SinkConnector]],
        wait_for_stops: Callable[[str, int | None], None],
        lock: threading.Lock,
    ) -> None:
        """`wait_for_stops(connector, generation)` returns when tasks of others have ended, or their time is up.

        `lock` is held while a group is changed: who decides meanwhile by its offsets what may be deleted waits, or is
        waited for (E9).
        """
        self._settings = settings
        self._find = find
        self._wait_for_stops = wait_for_stops
        self._lock = lock

    def read(self, snapshot: ClusterSnapshot, connector: str) -> list[ConnectorOffset]:
        """Return where a sink stands. Raises OperationError where that cannot be learned."""
        try:
            found = self._group(connector, snapshot.connectors[connector]).read()
        except _REFUSED as error:
            raise OperationError(
                f"Failed to retrieve consumer group offsets for connector {connector}: {error}"
            ) from error
        return [_shown(place, offset) for place, offset in sorted(found.items())]

    def alter(self, connector: str, offsets: Sequence[ConnectorOffset], lead: Lead) -> str:
        """Move the named partitions of a stopped sink; returns what to tell the user."""

        def change(group: GroupOffsets, config: RawConfig, wanted: Wanted, snapshot: ClusterSnapshot) -> None:
            self._ensure_there(config, wanted, snapshot)
            write(group, wanted)

        return self._modify(connector, lambda group: parsed(offsets), change, "alter", "altered", lead)

    def reset(self, connector: str, lead: Lead) -> str:
        """Forget every offset of a stopped sink; returns what to tell the user."""
        return self._modify(
            connector,
            lambda group: dict.fromkeys(group.read(), None),
            lambda group, config, wanted, snapshot: group.delete(),
            _RESET,
            "reset",
            lead,
        )

    def create(
        self, command: PutConnector, offsets: Sequence[ConnectorOffset], lead: Lead
    ) -> tuple[ClusterSnapshot, str]:
        """Create a sink that begins at `offsets`, and at nothing that a deleted one of its name has left.

        What else is in a group that its config names stays: it may be somebody else's. Where the connector is refused
        at last, the group is put back.
        """
        connector, config, wanted = command.connector, command.config, parsed(offsets)
        snapshot = lead(EnsureAbsent(connector))  # 1
        ensure = EnsureAbsent(connector, since=Standing.of(snapshot, connector))
        self._wait_for_stops(connector, None)  # 2
        with _failing_creation(connector):
            self._ensure_there(config, wanted, snapshot)
            group = self._group(connector, config)
            before = group.read()
            if self._settings.sink_group(connector, config) == own_group(connector):
                wanted = dict.fromkeys(before) | wanted
            is_external = ask_connector(self._find, connector, config, wanted)  # 3
            self._take_out_dead_members(connector, config)  # 4
            written = Written(group, config, wanted, {place: before.get(place) for place in wanted})
        with self._lock:
            with _failing_creation(connector):
                snapshot = lead(ensure)  # 5
                self._ensure_there(config, wanted, snapshot)
                write(group, wanted)  # 6
            try:
                if self._may_be_given_up(wanted, snapshot):
                    self._ensure_there(config, wanted, lead(ensure))  # who leads from now on sees what is written
                snapshot = lead(replace(command, since=ensure.since))
            except Exception:
                fault = self._put_back(ensure, written, lead)
                if fault is not None:
                    log.warning(
                        "connector %s was not created, but its group says where it was to begin: the same request "
                        "again is safe, and a create without initial_offsets would go on there (%s)",
                        connector, fault,
                    )  # fmt: skip
                raise
        return snapshot, (DONE if is_external else FRAMEWORK_ONLY).format("altered")

    def _put_back(self, ensure: EnsureAbsent | EnsureStopped, written: Written, lead: Lead) -> Exception | None:
        """Undo what was written; return why not, where it is not certain that nobody counts on it by now."""
        try:
            snapshot = lead(ensure)
            written.ensure_undoable(snapshot)
            write(written.group, written.before)
        except Exception as error:
            return error
        return None

    def _modify(
        self,
        connector: str,
        asked: Callable[[GroupOffsets], Wanted],
        change: Callable[[GroupOffsets, RawConfig, Wanted, ClusterSnapshot], None],
        verb: str,
        done: str,
        lead: Lead,
    ) -> str:
        snapshot = lead(EnsureStopped(connector))  # 1
        ensure = EnsureStopped(connector, since=Standing.of(snapshot, connector))
        self._wait_for_stops(connector, snapshot.commit_offsets.get(connector))  # 2
        config = snapshot.connectors[connector]
        try:
            group = self._group(connector, config)
            wanted = asked(group)
            is_external = ask_connector(self._find, connector, config, wanted)  # 3
            self._take_out_dead_members(connector, config)  # 4
            with self._lock:
                snapshot = lead(ensure)  # 5
                is_checked = self._may_be_given_up(wanted, snapshot)  # E9
                before = group.read() if is_checked else {}
                change(group, config, wanted, snapshot)  # 6
                if is_checked:
                    written = Written(group, config, wanted, {place: before.get(place) for place in wanted})
                    snapshot = self._may_stand(ensure, written, lead)
        except GroupInUseError as error:
            raise OperationError(_ZOMBIES.format(verb, connector)) from error
        except _REFUSED as error:
            raise OperationError(
                f"Failed to {verb} consumer group offsets for connector {connector}: {error}"
            ) from error
        return (DONE if is_external else FRAMEWORK_ONLY).format(done) + self._gone(verb, connector, config, snapshot)

    def _may_stand(self, ensure: EnsureStopped, written: Written, lead: Lead) -> ClusterSnapshot:
        """Return the newest snapshot, by which what was written stands. Else put it back, and say so.

        A leader that was deposed meanwhile may have come too late: nobody is told "done". Nor where it leads again, and
        another one has given up records in between.
        """
        try:
            snapshot = lead(ensure)
            self._ensure_there(written.config, written.wanted, snapshot)
        except (*_REFUSED, OperationError) as error:
            fault = self._put_back(ensure, written, lead)
            raise refused(error, left(ensure.connector, written, fault)) from error
        return snapshot

    def _take_out_dead_members(self, connector: str, config: RawConfig) -> None:
        """Take out what processes that were killed have left in the group: a start, which would do it, does not follow.

        Raises GroupInUseError where a member lives.
        """
        conf = self._settings.task_consumer_conf(connector, config, 0)
        take_out_dead_members(conf, partial(is_of_a_task, connector, str(conf["client.id"])), _ASK_S)

    def _group(self, connector: str, config: RawConfig) -> GroupOffsets:
        conf = self._settings.sink_admin_conf(config)
        return GroupOffsets(conf, self._settings.sink_group(connector, config), timeout_s=_ASK_S)

    def _ensure_there(self, config: RawConfig, wanted: Wanted, snapshot: ClusterSnapshot) -> None:
        """Raise BadRequestError for an offset that the log has not, or no more: a sink would skip without a word."""
        asked = {place: offset for place, offset in wanted.items() if offset is not None}
        admin = Admin(self._settings.sink_admin_conf(config))
        ids: dict[str, str] = {}
        for topic in sorted({place.topic for place in asked}):
            found = admin.topic(topic, timeout_s=_ASK_S)
            if found is None:
                raise BadRequestError(f"There is no topic {topic}: its offsets cannot be altered")
            for place in asked:
                if place.topic == topic and not 0 <= place.partition < found.partitions:
                    raise BadRequestError(f"Topic {topic} has no partition {place.partition}")
            ids[topic] = found.id
        starts = admin.start_offsets(asked, timeout_s=_ASK_S)
        ends = admin.end_offsets(asked, timeout_s=_ASK_S, read_committed=False)
        for place, offset in asked.items():
            start = max(starts[place], self._given_up(place, ids[place.topic], snapshot))
            if not start <= offset <= ends[place]:
                raise BadRequestError(
                    f"Offset {offset} of topic {place.topic}, partition {place.partition} is not there: its log begins "
                    f"at {start} and ends at {ends[place]}"
                )

    def _given_up(self, place: TopicPartition, topic_id: str, snapshot: ClusterSnapshot) -> int:
        """Return up to where records may go at any moment, as all sinks had committed them (delete.committed)."""
        known = snapshot.retention.get(place.topic)
        return known.deleted.get(place.partition, 0) if known is not None and known.topic_id == topic_id else 0

    def _may_be_given_up(self, wanted: Wanted, snapshot: ClusterSnapshot) -> bool:
        """Say whether some leader gives up records there: this worker, or another one, whose file says otherwise."""
        is_known = any(place.topic in snapshot.retention for place in wanted)
        return is_known or self._settings.config.delete_committed_enabled

    def _gone(self, verb: str, connector: str, config: RawConfig, snapshot: ClusterSnapshot) -> str:
        """Return what to add to the answer to a reset, where records were deleted that it would have delivered."""
        if verb != _RESET:
            return ""
        read = reading(connector, config, self._settings)
        emptied = sorted(t for t, known in snapshot.retention.items() if read.covers(t) and any(known.deleted.values()))
        if not emptied:
            return ""
        return (
            f" What was deleted from {', '.join(emptied)} because all sinks had committed it "
            "(delete.committed.enabled) is not delivered again."
        )


@contextmanager
def _failing_creation(connector: str) -> Iterator[None]:
    """Raise what is met within as what fails to create a connector with initial offsets."""
    failed = f"Failed to create connector {connector} with initial_offsets"
    try:
        yield
    except GroupInUseError as error:
        raise OperationError(
            f"{failed}: {error}. Tasks of a deleted connector of the name may still be stopping: then the request can "
            "be safely retried. Or somebody else reads as a member of that group: name another in "
            "consumer.override.group.id"
        ) from error
    except _REFUSED as error:
        raise OperationError(f"{failed}: {error}") from error


def is_of_a_task(connector: str, first: str, client_id: str) -> bool:
    """Say whether a member of a sink's group has the client id of a task, where that of the first is `first`. Pure.

    A client id that the user gives is that of all tasks.
    """
    own = sink_client_id(connector, 0)
    if first != own:
        return client_id == first
    begin = own.removesuffix("0")
    return client_id.startswith(begin) and client_id.removeprefix(begin).isdecimal()


def _shown(place: TopicPartition, offset: int) -> ConnectorOffset:
    return ConnectorOffset({TOPIC: place.topic, PARTITION: place.partition}, {OFFSET: offset})


def parsed(offsets: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """Return what a body asks for, the last entry of a partition. Raises BadRequestError, in Kafka Connect's words."""
    if not offsets:
        raise NothingToAlterError
    return {_place(partition): _offset(offset) for partition, offset in offsets}


def _place(partition: Mapping[str, Any] | None) -> TopicPartition:
    if partition is None:
        raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in partition or PARTITION not in partition:
        raise BadRequestError(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
        )
    if partition[TOPIC] is None:
        raise BadRequestError("Kafka topic names must be valid strings and may not be null")
    if partition[PARTITION] is None:
        raise BadRequestError("Kafka partitions must be valid numbers and may not be null")
    return TopicPartition(str(partition[TOPIC]), _whole(partition[PARTITION], "partition", 32))


def _offset(offset: Mapping[str, Any] | None) -> int | None:
    if offset is None:
        return None
    if OFFSET not in offset:
        raise BadRequestError(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    return _whole(offset[OFFSET], "offset", 64)


def _whole(value: object, what: str, bits: int) -> int:
    """Return a number of a body, where a text is a number, too. Raises BadRequestError for what Kafka cannot hold."""
    text = java_text(None, value)
    if _NUMBER.fullmatch(text) and -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        return int(text)
    raise BadRequestError(
        f"Failed to parse the following Kafka {what} value in the provided offsets: '{text}'. "
        f"{what.capitalize()} values for sink connectors need to be integers."
    )
