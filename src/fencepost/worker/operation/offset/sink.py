"""Changes the offsets of a sink, which are those of its consumer group (KIP-875). On the leader, except for reading.

Order: 1 by the newest config topic it is stopped ▸ 2 its tasks have ended, or their time to do so is over ▸ 3 the
connector's class is asked ▸ 4 members that killed processes have left in the group are removed ▸ 5 it is still stopped,
without a run in between ▸ 6 the group is changed, which its coordinator refuses while a task is a member. A new
connector with initial offsets (KIP-995) does not exist yet in 1 and 5, no other one has its group, and its config is
written last.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fencepost.api import ConfigError, SinkConnector
from fencepost.cluster.command import ConnectorVersion, EnsureAbsent, EnsureStopped, PutConnector
from fencepost.cluster.errors import (
    BadRequestError,
    ConflictError,
    ElsewhereError,
    NotFoundError,
    NothingToAlterError,
    NotLeadingError,
    OperationError,
)
from fencepost.cluster.info import ConnectorOffset
from fencepost.config.reference import RawConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import ASK_S, KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_admin import take_out_dead_members
from fencepost.kafka.group.group_offsets import GroupInUseError, GroupOffsets
from fencepost.record import TopicPartition
from fencepost.record.java_value import java_text
from fencepost.retention.survey import reading
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset.alteration import DONE, FRAMEWORK_ONLY, Lead, ask_connector
from fencepost.worker.plan import Client, known, own_group, sink_client_id
from fencepost.worker.settings import WorkerSettings

_MOST_NAMED = 5

Wanted = Mapping[TopicPartition, int | None]
log = logging.getLogger(__name__)

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_RESET = "reset"
_REFUSED = (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError, ConfigError)
_ZOMBIES = (
    "Failed to {0} consumer group offsets for connector {1} either because its tasks haven't stopped completely yet or "
    "the connector was resumed before the request to {0} its offsets could be successfully completed. If the connector "
    "is in a stopped state, this operation can be safely retried. If it doesn't eventually succeed, the Connect "
    "cluster may need to be restarted to get rid of the zombie sink tasks."
)


@dataclass(frozen=True)
class WrittenOffsets:
    """What was written to the group of a sink with this config, and the former offsets of those partitions."""

    group: GroupOffsets
    config: RawConfig
    wanted: Wanted
    before: Wanted

    def ensure_undoable(self, snapshot: ClusterSnapshot) -> None:
        """Raise ConflictError if others rely on what was written, or have changed it."""
        for place, offset in self.before.items():
            known = snapshot.retention.get(place.topic)
            if known is not None and offset is not None and offset < known.deleted.get(place.partition, 0):
                raise ConflictError(
                    f"records after the old offset of {place.topic}-{place.partition} may already be deleted"
                )
        now = self.group.read()
        if any(now.get(place) != offset for place, offset in self.wanted.items()):
            raise ConflictError("they were changed in the meantime")

    def __str__(self) -> str:
        shown = [
            f"{place.topic}-{place.partition} {'without one' if offset is None else f'at {offset}'}"
            for place, offset in sorted(self.wanted.items())
        ]
        return ", ".join(shown[:_MOST_NAMED]) + ("" if len(shown) <= _MOST_NAMED else " …")


def write(group: GroupOffsets, wanted: Wanted) -> None:
    """Set offsets, and remove those that are None."""
    group.alter({place: offset for place, offset in wanted.items() if offset is not None})
    group.forget([place for place, offset in wanted.items() if offset is None])


def refused(error: Exception, left: str) -> OperationError:
    """Return the error for a request that was refused after its offsets had been written."""
    said = (BadRequestError, NotFoundError, ConflictError)
    kind = next((each for each in said if isinstance(error, each)), OperationError)
    return (ConflictError if isinstance(error, ElsewhereError) else kind)(f"{_said(error)}. {left}")


def _said(error: Exception) -> str:
    """Return the text of an error, except for errors that would make the caller repeat the request as a new one."""
    is_elsewhere = isinstance(error, NotLeadingError | ElsewhereError)
    return "Another worker leads by now" if is_elsewhere else str(error).removesuffix(".")


def left(connector: str, written: WrittenOffsets, fault: Exception | None) -> str:
    """Return what to say about the group's offsets, after restoring them failed with `fault`, or succeeded (None)."""
    if fault is None:
        return "The former offsets were put back"
    return (
        f"The former offsets were not put back, because others may rely on the new ones ({_said(fault)}). Written "
        f"were: {written}. Check the offsets (GET /connectors/{connector}/offsets) and send the request again"
    )


class SinkOffsets:
    """Reads and changes the offsets of sinks."""

    def __init__(
        self,
        settings: WorkerSettings,
        find: Callable[[RawConfig], type[SinkConnector]],
        wait_for_stops: Callable[[str, int | None], None],
        lock: threading.Lock,
    ) -> None:
        """`wait_for_stops(connector, generation)` returns when tasks elsewhere have ended, or their time is over.

        `lock` is held while a group is changed, so that decisions on what to delete by its offsets do not happen at the
        same time (E9).
        """
        self._settings = settings
        self._find = find
        self._wait_for_stops = wait_for_stops
        self._lock = lock

    def read(self, snapshot: ClusterSnapshot, connector: str) -> list[ConnectorOffset]:
        """Return the offsets of a sink. Raises OperationError if they cannot be read."""
        try:
            found = self._group(connector, snapshot.connectors[connector]).read()
        except _REFUSED as error:
            raise OperationError(
                f"Failed to retrieve consumer group offsets for connector {connector}: {error}"
            ) from error
        return [shown(place, offset) for place, offset in sorted(found.items())]

    def alter(self, connector: str, offsets: Sequence[ConnectorOffset], lead: Lead) -> str:
        """Move the named partitions of a stopped sink; returns a message for the user."""

        def change(group: GroupOffsets, config: RawConfig, wanted: Wanted, snapshot: ClusterSnapshot) -> None:
            self._ensure_there(config, wanted, snapshot)
            write(group, wanted)

        return self._modify(connector, lambda group: parsed(offsets), change, "alter", "altered", lead)

    def reset(self, connector: str, lead: Lead) -> str:
        """Remove every offset of a stopped sink; returns a message for the user."""
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
        """Create a sink that starts at `offsets`, without offsets left by a deleted connector of the same name.

        Other offsets in a group that its config names stay, as they may belong to others. If the connector is finally
        refused, the group is restored.
        """
        connector, config, wanted = command.connector, command.config, parsed(offsets)
        snapshot = lead(EnsureAbsent(connector, config))  # 1
        ensure = EnsureAbsent(connector, config, since=ConnectorVersion.of(snapshot, connector))
        self._wait_for_stops(connector, None)  # 2
        with _failing_creation(connector):
            self._ensure_there(config, wanted, snapshot)
            group = self._group(connector, config)
            before = group.read()
            if self._settings.plan(config).clients.group(connector) == own_group(connector):
                wanted = dict.fromkeys(before) | wanted
            is_external = ask_connector(self._find, connector, config, wanted, self._settings.config)  # 3
            self._take_out_dead_members(connector, config)  # 4
            written = WrittenOffsets(group, config, wanted, {place: before.get(place) for place in wanted})
        with self._lock:
            with _failing_creation(connector):
                snapshot = lead(ensure)  # 5
                self._ensure_there(config, wanted, snapshot)
                write(group, wanted)  # 6
            try:
                if self._may_be_given_up(wanted, snapshot):
                    self._ensure_there(config, wanted, lead(ensure))  # later leaders will see what is written
                snapshot = lead(replace(command, since=ensure.since))
            except Exception:
                fault = self._put_back(ensure, written, lead)
                if fault is not None:
                    log.warning(
                        "connector %s was not created, but its group still contains its initial offsets: repeating the "
                        "same request is safe, but a create without initial_offsets would continue from them (%s)",
                        connector, fault,
                    )  # fmt: skip
                raise
        return snapshot, (DONE if is_external else FRAMEWORK_ONLY).format("altered")

    def _put_back(self, ensure: EnsureAbsent | EnsureStopped, written: WrittenOffsets, lead: Lead) -> Exception | None:
        """Undo what was written. If others may already rely on it, leave it and return the reason."""
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
        ensure = EnsureStopped(connector, since=ConnectorVersion.of(snapshot, connector))
        self._wait_for_stops(connector, snapshot.commit_offsets.get(connector))  # 2
        config = snapshot.connectors[connector]
        try:
            group = self._group(connector, config)
            wanted = asked(group)
            is_external = ask_connector(self._find, connector, config, wanted, self._settings.config)  # 3
            self._take_out_dead_members(connector, config)  # 4
            with self._lock:
                snapshot = lead(ensure)  # 5
                is_checked = self._may_be_given_up(wanted, snapshot)  # E9
                before = group.read() if is_checked else {}
                change(group, config, wanted, snapshot)  # 6
                if is_checked:
                    written = WrittenOffsets(group, config, wanted, {place: before.get(place) for place in wanted})
                    snapshot = self._may_stand(ensure, written, lead)
        except GroupInUseError as error:
            raise OperationError(_ZOMBIES.format(verb, connector)) from error
        except _REFUSED as error:
            raise OperationError(
                f"Failed to {verb} consumer group offsets for connector {connector}: {error}"
            ) from error
        return (DONE if is_external else FRAMEWORK_ONLY).format(done) + self._gone(verb, connector, config, snapshot)

    def _may_stand(self, ensure: EnsureStopped, written: WrittenOffsets, lead: Lead) -> ClusterSnapshot:
        """Return a newest snapshot that confirms what was written. If none does, undo it, and raise the reason.

        A leader that was deposed in the meantime may have written too late, so it must not answer "done". The same
        holds if it leads again, and another leader has released records for deletion in between.
        """
        try:
            snapshot = lead(ensure)
            self._ensure_there(written.config, written.wanted, snapshot)
        except (*_REFUSED, OperationError) as error:
            fault = self._put_back(ensure, written, lead)
            raise refused(error, left(ensure.connector, written, fault)) from error
        return snapshot

    def _take_out_dead_members(self, connector: str, config: RawConfig) -> None:
        """Remove the members that killed processes have left in the group: no start follows that would do so.

        Raises GroupInUseError if a member is alive.
        """
        conf = self._settings.plan(config).clients.sink_conf(connector, 0)
        take_out_dead_members(conf, partial(is_of_a_task, connector, str(conf["client.id"])), ASK_S)

    def _group(self, connector: str, config: RawConfig) -> GroupOffsets:
        clients = self._settings.plan(config).clients
        return GroupOffsets(clients.conf(Client.SINK_ADMIN), clients.group(connector))

    def _ensure_there(self, config: RawConfig, wanted: Wanted, snapshot: ClusterSnapshot) -> None:
        """Raise BadRequestError for an offset outside the log, from which a sink would silently jump elsewhere."""
        asked = {place: offset for place, offset in wanted.items() if offset is not None}
        admin = Admin(self._settings.plan(config).clients.conf(Client.SINK_ADMIN))
        ids: dict[str, str] = {}
        for topic in sorted({place.topic for place in asked}):
            found = admin.topics.get(topic)
            if found is None:
                raise BadRequestError(f"Topic {topic} does not exist: its offsets cannot be altered")
            for place in asked:
                if place.topic == topic and not 0 <= place.partition < found.partitions:
                    raise BadRequestError(f"Topic {topic} has no partition {place.partition}")
            ids[topic] = found.id
        starts = admin.offsets.starts(asked)
        ends = admin.offsets.ends(asked, read_committed=False)
        for place, offset in asked.items():
            start = max(starts[place], self._given_up(place, ids[place.topic], snapshot))
            if not start <= offset <= ends[place]:
                raise BadRequestError(
                    f"Offset {offset} of topic {place.topic}, partition {place.partition} is not in its log, which "
                    f"begins at {start} and ends at {ends[place]}"
                )

    def _given_up(self, place: TopicPartition, topic_id: str, snapshot: ClusterSnapshot) -> int:
        """Return the offset below which records may be deleted at any moment, as all sinks have committed them."""
        kept = snapshot.retention.get(place.topic)
        return kept.deleted.get(place.partition, 0) if kept is not None and kept.topic_id == topic_id else 0

    def _may_be_given_up(self, wanted: Wanted, snapshot: ClusterSnapshot) -> bool:
        """Say whether a leader may delete records there: this worker, or another one with a different file."""
        is_known = any(place.topic in snapshot.retention for place in wanted)
        return is_known or self._settings.config.delete_committed_enabled

    def _gone(self, verb: str, connector: str, config: RawConfig, snapshot: ClusterSnapshot) -> str:
        """Return an addition to the answer to a reset if records were deleted that it would have delivered again."""
        if verb != _RESET:
            return ""
        read = reading(connector, config, self._settings, partial(known, self._settings.config))
        emptied = sorted(t for t, kept in snapshot.retention.items() if read.covers(t) and any(kept.deleted.values()))
        if not emptied:
            return ""
        return (
            f" What was deleted from {', '.join(emptied)} because all sinks had committed it "
            "(delete.committed.enabled) is not delivered again."
        )


@contextmanager
def _failing_creation(connector: str) -> Iterator[None]:
    failed = f"Failed to create connector {connector} with initial_offsets"
    try:
        yield
    except GroupInUseError as error:
        raise OperationError(
            f"{failed}: {error}. Tasks of a deleted connector of the same name may still be stopping; the request can "
            "then be safely retried. If another consumer is a member of that group, set a different "
            "consumer.override.group.id"
        ) from error
    except _REFUSED as error:
        raise OperationError(f"{failed}: {error}") from error


def is_of_a_task(connector: str, first: str, client_id: str) -> bool:
    """Say whether a member of a sink's group has the client id of a task; `first` is that of the first task. Pure.

    A client id set by the user is the same for all tasks.
    """
    own = sink_client_id(connector, 0)
    if first != own:
        return client_id == first
    begin = own.removesuffix("0")
    return client_id.startswith(begin) and client_id.removeprefix(begin).isdecimal()


def shown(place: TopicPartition, offset: int) -> ConnectorOffset:
    return ConnectorOffset({TOPIC: place.topic, PARTITION: place.partition}, {OFFSET: offset})


def parsed(offsets: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """Return a body's offsets, the last entry of each partition. Raises BadRequestError, with Kafka Connect's texts."""
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
    """Return a number of a body, which may be text. Raises BadRequestError for numbers out of Kafka's range."""
    text = java_text(None, value)
    if _NUMBER.fullmatch(text) and -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        return int(text)
    raise BadRequestError(
        f"Failed to parse the following Kafka {what} value in the provided offsets: '{text}'. "
        f"{what.capitalize()} values for sink connectors need to be integers."
    )
