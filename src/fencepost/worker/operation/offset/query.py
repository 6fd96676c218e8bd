"""The offsets of streaming queries. They are in the queries' checkpoints, with the state that was made up to there."""

from collections.abc import Sequence
from typing import NoReturn

import orjson

from fencepost.api import ConfigError
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.cluster.command import PutConnector
from fencepost.cluster.errors import BadRequestError, OperationError
from fencepost.cluster.info import ConnectorOffset
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.selection import positions
from fencepost.spark.write.checkpoint import HEADER_LINES
from fencepost.spark.write.folder import Folder
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset.alteration import Lead
from fencepost.worker.operation.offset.sink import shown
from fencepost.worker.plan import known
from fencepost.worker.settings import WorkerSettings

_CHECKPOINT, _STARTING = SqlStream.key_of("checkpoint"), SqlStream.key_of("starting_offsets")
_FIXED = (
    "its offsets belong to the state in its checkpoint, and cannot be changed without it. To begin elsewhere, set "
    f"another {_CHECKPOINT}, and {_STARTING}"
)


class QueryOffsets:
    """Reads the offsets of queries, and refuses to change them."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def read(self, snapshot: ClusterSnapshot, connector: str) -> list[ConnectorOffset]:
        """Return where the last batch ended that Spark has recorded as done. Raises OperationError."""
        try:
            location = known(self._settings.config, snapshot.connectors[connector])[_CHECKPOINT] or ""
            found = committed_positions(Folder(location))
        except (OSError, ConfigError, KafkaUnavailableError, ValueError) as error:
            raise OperationError(f"Failed to read {_CHECKPOINT} of connector {connector}: {error}") from error
        return [shown(place, offset) for place, offset in sorted(found.items())]

    def alter(self, connector: str, offsets: Sequence[ConnectorOffset], lead: Lead) -> NoReturn:
        """Raise BadRequestError."""
        raise BadRequestError(f"Failed to alter offsets for connector {connector}: {_FIXED}")

    def reset(self, connector: str, lead: Lead) -> NoReturn:
        """Raise BadRequestError."""
        raise BadRequestError(f"Failed to reset offsets for connector {connector}: {_FIXED}")

    def create(self, command: PutConnector, offsets: Sequence[ConnectorOffset], lead: Lead) -> NoReturn:
        """Raise BadRequestError."""
        raise BadRequestError(f"Failed to create connector {command.connector} with offsets: set {_STARTING} instead")


def committed_positions(checkpoint: Folder) -> dict[TopicPartition, int]:
    """Return the end of the last batch in a checkpoint that is done; empty before the first.

    Raises OSError, ConfigError and ValueError.
    """
    done = [int(name) for name in checkpoint.below("commits").names() if name.isdecimal()]
    if not done:
        return {}
    lines = checkpoint.text(f"offsets/{max(done)}").splitlines()[HEADER_LINES:]
    return {place: offset for line in lines if line != "-" for place, offset in positions(orjson.loads(line)).items()}
