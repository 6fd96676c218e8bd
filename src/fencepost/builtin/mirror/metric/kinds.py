"""A mirror's metrics, under MirrorMaker's names: beans of `kafka.connect.mirror`, by the partition of the target.

A task returns rows of labels followed by values; the worker, which knows the names, makes metrics of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_SINCE = "since the task started"
_PACKAGE = "kafka_connect_mirror_mirror"


@dataclass(frozen=True)
class FigureKind:
    """A kind of rows: their labels, and the name and description of each value (`_total`: a counter)."""

    prefix: str
    labels: tuple[str, ...]
    values: Mapping[str, str]


def _times(name: str, what: str) -> dict[str, str]:
    return {
        name: f"{what}, in milliseconds: the newest.",
        f"{name}_max": f"{what}, in milliseconds: the longest {_SINCE}.",
        f"{name}_min": f"{what}, in milliseconds: the shortest {_SINCE}.",
        f"{name}_avg": f"{what}, in milliseconds: the mean {_SINCE}.",
    }


_SOURCE = FigureKind(
    f"{_PACKAGE}sourceconnector",
    ("source", "target", "topic", "partition"),
    {
        "record_count": f"Records that were mirrored and committed, {_SINCE}.",
        "byte_count": f"Bytes of the values of these records, {_SINCE}.",
        **_times("record_age_ms", "How old records were, by their timestamps, when they were read from the source"),
        **_times("replication_latency_ms", "How old records were, by their timestamps, when they were committed"),
    },
)
_CHECKPOINT = FigureKind(
    f"{_PACKAGE}checkpointconnector",
    ("source", "target", "group", "topic", "partition"),
    _times("checkpoint_latency_ms", "How long checkpoints took, from their translation to their commit"),
)
_GAP = FigureKind(
    "fencepost_mirror",
    ("source", "target", "topic", "partition"),
    {
        "gaps_total": f"Gaps in logs of the source that the task has skipped (on.source.gap=record), {_SINCE}.",
        "gap_offsets_total": f"Offsets in these gaps, as far as known, {_SINCE}.",
    },
)

SOURCE, CHECKPOINT, GAP = "source", "checkpoint", "gap"
KINDS: Mapping[str, FigureKind] = {SOURCE: _SOURCE, CHECKPOINT: _CHECKPOINT, GAP: _GAP}
