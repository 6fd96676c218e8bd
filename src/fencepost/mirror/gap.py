"""What a mirror does where a log of the source does not go on where it stands.

A gap that is gone on behind is written down among the source offsets, in the transaction that goes on behind it: as the
partition `{"cluster", "topic", "partition", "gap": the position}`, which is the offset of nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api import Config, FatalError, one_of, setting
from fencepost.kafka.value.log_gap import LogGap
from fencepost.mirror.position import source_partition

_GAP = "gap"


class GapError(FatalError):
    """A log of the source does not go on where the mirror stands, and nobody has said what to do about it."""


class GapSettings(Config):
    """What becomes of a gap."""

    on_gap: str = setting(
        "on.source.gap", default="fail", check=one_of("fail", "record", ignore_case=False),
        doc="What happens where records are gone before they were mirrored, or a topic was made anew: `fail` fails the "
        "task, `record` goes on where the log begins now, and writes down what was left out.",
    )  # fmt: skip


def gap_error(gaps: Sequence[LogGap], connector: str) -> GapError:
    """Return the error of a task that fails for these gaps: the cause, the numbers, and the two ways on."""
    told = "; ".join(str(gap) for gap in gaps)
    return GapError(
        f"Records of the source cannot be mirrored any more: {told}. Either say where to go on (stop the connector, "
        f'PATCH /connectors/{connector}/offsets with {{"offset": the last offset to leave out}} for each of them, '
        f"resume it), or set {GapSettings.key_of('on_gap')}=record, which goes on where each log begins now and "
        "writes the gap down"
    )


def gap_record(alias: str, gap: LogGap, at_ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return source partition and source offset that say of a gap that the mirror has gone on behind it."""
    told = {
        "reason": gap.kind.name.lower(),
        "position": gap.position,
        "log_start": gap.start,
        "log_end": gap.end,
        "topic_id": gap.topic_id,
        "time_ms": at_ms,
    }
    return {**source_partition(alias, gap.place), _GAP: gap.position}, told


def is_gap_record(partition: Mapping[str, Any]) -> bool:
    """Say whether a source partition stands for a gap."""
    return _GAP in partition


def told_gap(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is told of a gap that was written down; None for a source partition that stands for none."""
    if not is_gap_record(partition):
        return None
    return {**{key: value for key, value in partition.items() if key != _GAP}, **offset}
