"""What was written to the group of a sink, and what is said of it where the request is refused after all."""

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
class Written:
    """What was written to the group of a sink with this config, and what stood in those partitions before."""

    group: GroupOffsets
    config: RawConfig
    wanted: Wanted
    before: Wanted

    def ensure_undoable(self, snapshot: ClusterSnapshot) -> None:
        """Raise ConflictError where somebody has counted on what was written, or moved it."""
        for place, offset in self.before.items():
            known = snapshot.retention.get(place.topic)
            if known is not None and offset is not None and offset < known.deleted.get(place.partition, 0):
                raise ConflictError(f"what follows the former offset of {place.topic}-{place.partition} is given up")
        now = self.group.read()
        if any(now.get(place) != offset for place, offset in self.wanted.items()):
            raise ConflictError("they were moved meanwhile")

    def __str__(self) -> str:
        shown = [
            f"{place.topic}-{place.partition} {'without one' if offset is None else f'at {offset}'}"
            for place, offset in sorted(self.wanted.items())
        ]
        return ", ".join(shown[:_MOST_NAMED]) + ("" if len(shown) <= _MOST_NAMED else " …")


def write(group: GroupOffsets, wanted: Wanted) -> None:
    """Set offsets, and forget those that are None."""
    group.alter({place: offset for place, offset in wanted.items() if offset is not None})
    group.forget([place for place, offset in wanted.items() if offset is None])


def refused(error: Exception, left: str) -> OperationError:
    """Return what is answered to who asked for what was written, and was refused then."""
    said = (BadRequestError, NotFoundError, ConflictError)
    kind = next((each for each in said if isinstance(error, each)), OperationError)
    return (ConflictError if isinstance(error, ElsewhereError) else kind)(f"{_said(error)}. {left}")


def _said(error: Exception) -> str:
    """Return the text of an error, but not of one by which the request would be sent once more, as if it were new."""
    is_elsewhere = isinstance(error, NotLeadingError | ElsewhereError)
    return "Another worker leads by now" if is_elsewhere else str(error).removesuffix(".")


def left(connector: str, written: Written, fault: Exception | None) -> str:
    """Return what to say of what stands in the group, where putting it back met with `fault`."""
    if fault is None:
        return "The former offsets were put back"
    return (
        f"The former offsets were not put back, as somebody may count on the new ones ({_said(fault)}). Written was: "
        f"{written}. See where it stands (GET /connectors/{connector}/offsets) and ask again"
    )
