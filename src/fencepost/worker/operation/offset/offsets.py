"""Offsets of connectors of any type.

Those of streaming queries are in the queries' checkpoints, with the state that was made up to there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import orjson

from fencepost.api import ConfigError
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.builtin.mirror.source.position import gap_of_offset
from fencepost.cluster.command import ConnectorVersion, EnsureStopped, PutConnector
from fencepost.cluster.errors import BadRequestError, OperationError
from fencepost.cluster.info import ConnectorOffset, ConnectorType
from fencepost.config.reference import RawConfig
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.produce.transactional_client import ProducerError
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.selection import positions
from fencepost.spark.write.checkpoint import HEADER_LINES
from fencepost.spark.write.decision import home_of
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset.alteration import DONE, Lead
from fencepost.worker.operation.offset.sink import SinkOffsets, shown
from fencepost.worker.operation.offset.source import SourceOffsets
from fencepost.worker.operation.request import Requests
from fencepost.worker.plan import is_query_config, known, query_owner, type_of_config
from fencepost.worker.settings import WorkerSettings

_CHECKPOINT, _STARTING = SqlStream.key_of("checkpoint"), SqlStream.key_of("starting_offsets")
_FIXED = (
    "its offsets belong to the state in its checkpoint, and cannot be changed without it. To begin elsewhere, set "
    f"another {_CHECKPOINT}, and {_STARTING}"
)
_RESET = (
    f"{DONE.format('reset')}: the query may begin again with {{0}}, which is empty. What it has written stays in its "
    "topic"
)


class QueryOffsets:
    """Reads the offsets of queries, and refuses to change them without their state. On the leader, except for reading.

    A reset is for a checkpoint that was emptied: 1 by the newest config topic the connector is stopped ▸ 2 its task has
    ended, or its time to do so is over ▸ 3 the checkpoint is empty ▸ 4 it is still stopped, without a run in between ▸
    5 the record that the query has written with this checkpoint is deleted, under the transactional id of that query.
    """

    def __init__(self, settings: WorkerSettings, wait_for_stops: Callable[[str, int | None], None]) -> None:
        """`wait_for_stops(connector, generation)` returns when tasks elsewhere have ended, or their time is over."""
        self._settings = settings
        self._wait_for_stops = wait_for_stops

    def read(self, snapshot: ClusterSnapshot, connector: str) -> list[ConnectorOffset]:
        """Return where the last batch ended that Spark has recorded as done. Raises OperationError."""
        found = self._positions(connector, self._location(snapshot, connector))
        return [shown(place, offset) for place, offset in sorted(found.items())]

    def alter(self, connector: str, offsets: Sequence[ConnectorOffset], lead: Lead) -> NoReturn:
        """Raise BadRequestError."""
        raise BadRequestError(f"Failed to alter offsets for connector {connector}: {_FIXED}")

    def reset(self, connector: str, lead: Lead) -> str:
        """Let a stopped query begin again with its empty checkpoint; returns a message for the user."""
        from fencepost.spark.query.frame import writing_options
        from fencepost.spark.write.committer import forget_home

        snapshot = lead(EnsureStopped(connector))  # 1
        ensure = EnsureStopped(connector, since=ConnectorVersion.of(snapshot, connector))
        self._wait_for_stops(connector, snapshot.commit_offsets.get(connector))  # 2
        location = self._location(snapshot, connector)
        if self._positions(connector, location):  # 3
            raise BadRequestError(f"Failed to reset offsets for connector {connector}: {_FIXED}")
        lead(ensure)  # 4
        home = home_of(query_owner(self._settings.config, connector), location)
        clients = self._settings.plan(snapshot.connectors[connector]).clients
        try:
            forget_home(WriterConfig.of(writing_options(clients.producer_properties)), home)  # 5
        except (ConfigError, KafkaUnavailableError, ProducerError) as error:
            raise OperationError(f"Failed to reset offsets for connector {connector}: {error}") from error
        return _RESET.format(location)

    def create(self, command: PutConnector, offsets: Sequence[ConnectorOffset], lead: Lead) -> NoReturn:
        """Raise BadRequestError."""
        raise BadRequestError(f"Failed to create connector {command.connector} with offsets: set {_STARTING} instead")

    def _location(self, snapshot: ClusterSnapshot, connector: str) -> str:
        try:
            return known(self._settings.config, snapshot.connectors[connector])[_CHECKPOINT] or ""
        except (ConfigError, KafkaUnavailableError) as error:
            raise _unreadable(connector, error) from error

    def _positions(self, connector: str, location: str) -> dict[TopicPartition, int]:
        try:
            return committed_positions(Folder(location))
        except (OSError, ConfigError, ValueError) as error:
            raise _unreadable(connector, error) from error


def _unreadable(connector: str, error: Exception) -> OperationError:
    return OperationError(f"Failed to read {_CHECKPOINT} of connector {connector}: {error}")


def committed_positions(checkpoint: Folder) -> dict[TopicPartition, int]:
    """Return the end of the last batch in a checkpoint that is done; empty before the first.

    Raises OSError, ConfigError and ValueError.
    """
    done = [int(name) for name in checkpoint.below("commits").names() if name.isdecimal()]
    if not done:
        return {}
    lines = checkpoint.text(f"offsets/{max(done)}").splitlines()[HEADER_LINES:]
    return {place: offset for line in lines if line != "-" for place, offset in positions(orjson.loads(line)).items()}


class Offsets:
    """The `OffsetOperations` of a worker."""

    def __init__(self, requests: Requests, sources: SourceOffsets, sinks: SinkOffsets, queries: QueryOffsets) -> None:
        self._requests = requests
        self._sources = sources
        self._sinks = sinks
        self._queries = queries

    def read(self, name: str) -> Sequence[ConnectorOffset]:
        snapshot = self._requests.known(name)
        return self._of(snapshot.connectors[name]).read(snapshot, name)

    def gaps(self, name: str) -> Sequence[Mapping[str, Any]]:
        gaps = (gap_of_offset(partition or {}, offset or {}) for partition, offset in self.read(name))
        return [gap for gap in gaps if gap is not None]

    def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        self._requests.ensure_leading()
        return self._of_named(name).alter(name, offsets, self._lead(_modifying(name)))

    def reset(self, name: str) -> str:
        self._requests.ensure_leading()
        return self._of_named(name).reset(name, self._lead(_modifying(name)))

    def create(
        self, command: PutConnector, offsets: Sequence[ConnectorOffset], stage: str
    ) -> tuple[ClusterSnapshot, str]:
        """Create a connector that starts at `offsets`; returns a message for the user, too."""
        return self._of(command.config).create(command, offsets, self._lead(stage))

    def _of_named(self, name: str) -> SourceOffsets | SinkOffsets | QueryOffsets:
        return self._of(self._requests.snapshot.connectors.get(name, {}))

    def _of(self, config: RawConfig) -> SourceOffsets | SinkOffsets | QueryOffsets:
        if is_query_config(config):
            return self._queries
        return self._sinks if type_of_config(config) is ConnectorType.SINK else self._sources

    def _lead(self, stage: str) -> Lead:
        return lambda command: self._requests.lead(command, stage)


def _modifying(name: str) -> str:
    return f"modifying offsets for connector {name}"
