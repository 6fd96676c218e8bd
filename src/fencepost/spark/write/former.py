"""Direct writes of version 0.1, which committed each partition of a frame by itself, with a marker.

Their records are in the topic of option `offsets.topic`, under keys with the owner `fencepost-write`:

    {"id", "partition"}   what a partition has committed: its number of rows, and whether these are all
    {"id"}                the newest run of the write, and whether it is over
    {"id", "pulse"}       a heartbeat
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import orjson

from fencepost.api import FatalError
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.setting.table import ClientKind
from fencepost.spark.write.decision import Decision
from fencepost.spark.write.options import WriterConfig
from fencepost.storage.internal_topics import READ_S

_PREFIX = b'["fencepost-write",'


class FormerWriteError(FatalError):
    """An older version has committed a part of a write, which cannot be completed now."""

    def __init__(self, write_id: str, why: str) -> None:
        super().__init__(
            f"write.id {write_id} was begun by an older Fencepost, which {why}. Nothing is written now: complete it "
            "with that version, or write what is missing under another write.id"
        )


def former_write(config: WriterConfig, write_id: str) -> Decision | None:
    """Return what an older version has committed under an id, as a decision; None if nothing.

    Raises FormerWriteError if that is a part, or if a run has not ended.
    """
    found: dict[str, LogRecord] = {}

    def take(record: LogRecord) -> None:
        key = record.key or b""
        name = orjson.loads(key)[1] if key.startswith(_PREFIX) else {}
        if name.get("id") == write_id and "pulse" not in name:
            before = found.get(str(name))
            # A key is in two partitions if the topic has grown; they are read in any order.
            if before is None or before.partition == record.partition or before.timestamp_ms <= record.timestamp_ms:
                found[str(name)] = record

    with closing(LogReader(config.conf(ClientKind.CONSUMER), config.offsets_topic)) as reader:
        reader.read_to_end(READ_S, take)
    kept = [record for record in found.values() if record.value is not None]
    at_ms = max((record.timestamp_ms for record in kept), default=0)
    return whole_write(write_id, [(orjson.loads(r.key or b"")[1], orjson.loads(r.value or b"")) for r in kept], at_ms)


def whole_write(
    write_id: str, records: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], at_ms: int
) -> Decision | None:
    """Return what these records say is committed; None if nothing. Each is the name in a key, and the value.

    Raises FormerWriteError if that is a part, or if a run has not ended.
    """
    markers = {name["partition"]: value for name, value in records if "partition" in name}
    if not markers:
        if all(run.get("over") for _, run in records):
            return None
        raise FormerWriteError(write_id, "has not ended it: if it was killed, nothing is committed")
    count = max(value.get("partitions") or len(markers) + 1 for value in markers.values())
    done = [partition for partition, value in markers.items() if value.get("done")]
    if len(done) < count:
        raise FormerWriteError(write_id, f"has committed {len(done)} of {count} partitions")
    return Decision(0, "", sum(int(value["rows"]) for value in markers.values()), at_ms)


def ensure_same(write_id: str, former: Decision, rows: int) -> None:
    """Raise FormerWriteError unless a frame has as many rows as an older version has committed.

    Outside of `save()`, that version could commit some of the partitions, and not notice.
    """
    if rows != former.rows:
        raise FormerWriteError(write_id, f"has committed {former.rows} rows, and now there are {rows}")
