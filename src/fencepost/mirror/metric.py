"""What a mirror measures, under MirrorMaker's names: beans of `kafka.connect.mirror`, by the partition of the target.

A task gives rows, of labels and then values; the worker, which knows the names, makes metrics of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_SINCE = "since the task started"
_PACKAGE = "kafka_connect_mirror_mirror"


@dataclass(frozen=True)
class FigureKind:
    """Rows of one kind: their labels, and what each value behind these is called (`_total`: a counter), and means."""

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
    _times("checkpoint_latency_ms", "How long checkpoints took, from when they were made until they were committed"),
)
_GAP = FigureKind(
    "fencepost_mirror",
    ("source", "target", "topic", "partition"),
    {
        "gaps_total": f"Gaps in logs of the source that the task has gone on behind (on.source.gap=record), {_SINCE}.",
        "gap_offsets_total": f"Offsets that were left out there, as far as that is known, {_SINCE}.",
    },
)

SOURCE, CHECKPOINT, GAP = "source", "checkpoint", "gap"
KINDS: Mapping[str, FigureKind] = {SOURCE: _SOURCE, CHECKPOINT: _CHECKPOINT, GAP: _GAP}
