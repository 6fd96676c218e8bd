"""What a mirror does when a log of the source does not continue at the mirror's position.

A skipped gap is recorded among the source offsets, in the transaction that continues after it, as the source partition
`{"cluster", "topic", "partition", "gap": the position}`. No task reads it as a position.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api import Config, FatalError, one_of, setting
from fencepost.builtin.mirror.source.position import source_partition
from fencepost.kafka.value.log_gap import LogGap

_GAP = "gap"


class GapError(FatalError):
    """A log of the source does not continue at the mirror's position, and the config does not allow to skip the gap."""


class GapSettings(Config):
    """What happens at a gap."""

    on_gap: str = setting(
        "on.source.gap", default="fail", check=one_of("fail", "record", ignore_case=False),
        doc="What happens when records were deleted before they were mirrored, a log was cut, or a topic was "
        "recreated: `fail` fails the task; `record` continues with the first record that is not mirrored, and records "
        "the gap.",
    )  # fmt: skip


def gap_error(gaps: Sequence[LogGap], connector: str) -> GapError:
    """Return the error of a task that fails for these gaps: the cause, the numbers, and two ways to continue."""
    text = "; ".join(str(gap) for gap in gaps)
    return GapError(
        f"Records of the source are lost for this mirror: {text}. Either choose where to continue (stop the connector, "
        f'PATCH /connectors/{connector}/offsets with {{"offset": the last offset to skip}} for each of them, '
        f"resume it), or set {GapSettings.key_of('on_gap')}=record, which continues with the first record of each "
        "log that is not mirrored, and records the gap"
    )


def gap_record(alias: str, gap: LogGap, at_ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the source partition and offset that record a gap which the mirror has skipped."""
    text = {
        "reason": gap.kind.name.lower(),
        "position": gap.position,
        "log_start": gap.start,
        "log_end": gap.end,
        "continues_at": gap.next_offset,
        "topic_id": gap.topic_id,
        "time_ms": at_ms,
    }
    return {**source_partition(alias, gap.place), _GAP: gap.position}, text


def is_gap_record(partition: Mapping[str, Any]) -> bool:
    """Say whether a source partition is the record of a gap."""
    return _GAP in partition


def gap_of_offset(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the description of a recorded gap; None for any other source partition."""
    if not is_gap_record(partition):
        return None
    return {**{key: value for key, value in partition.items() if key != _GAP}, **offset}
