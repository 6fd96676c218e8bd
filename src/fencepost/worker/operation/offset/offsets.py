"""Offsets of connectors of any type."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.builtin.mirror.source.position import gap_of_offset
from fencepost.cluster.command import PutConnector
from fencepost.cluster.info import ConnectorOffset, ConnectorType
from fencepost.config.reference import RawConfig
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.connector_classes import is_query_config, type_of_config
from fencepost.worker.operation.offset.alteration import Lead
from fencepost.worker.operation.offset.query import QueryOffsets
from fencepost.worker.operation.offset.sink import SinkOffsets
from fencepost.worker.operation.offset.source import SourceOffsets
from fencepost.worker.operation.request import Requests


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
