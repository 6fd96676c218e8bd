"""What was written to a sink's group, and what to say about it if the request is refused after all."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.cluster.errors import (
    BadRequestError,
    ConflictError,
    ElsewhereError,
    NotFoundError,
    NotLeadingError,
    OperationError,
)
from fencepost.config.raw import RawConfig
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.storage.snapshot import ClusterSnapshot

_MOST_NAMED = 5

Wanted = Mapping[TopicPartition, int | None]


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
