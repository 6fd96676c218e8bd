"""The decision about a batch: the last record of its transaction, in the topic of option `offsets.topic`.

Its key names the write: a query's id, or `write.id`. Its value is the number of the newest batch that is written, and a
digest of what it was made of. The batch and the decision are committed together or not at all.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api import FatalError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.encode_cut import partitions as partitions_of
from fencepost.kafka.errors import MissingTopicError, ReadTimeoutError
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.read.record_columns import schema
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.value.position import LogRange
from fencepost.record import TopicPartition
from fencepost.spark.write.checkpoint import DECIDED
from fencepost.spark.write.options import WriterConfig
from fencepost.storage.internal_topics import InternalTopic, ensure_compacted
from fencepost.storage.offset_topic import encode_key, encode_offset
from fencepost.transaction import TransactionalWriter, lock_out

log = logging.getLogger(__name__)

PREFIX = "fencepost-write-"
_OWNER = "fencepost-batch"
_PARTITIONS = 8
_SEGMENT_BYTES = "16777216"
_UNKNOWN_TOPIC = 3  # Kafka's code
_TAIL, _WIDER = 1_000, 8  # offsets from the end that are read first, and how many times more after that
# A decision is the last record before the end of its transaction: other transactions hold the topic for milliseconds.
_SUSPICIOUS_S = 10.0
_SETTLE_S = 60.0
_LOOK_EVERY_S = 0.02
_FENCE_S = 10.0


class DecidedOtherwiseError(FatalError):
    """The batch, or a later one, is decided, and it was made of something else."""


class MissingDecisionError(FatalError):
    """The topic lacks a decision that was made."""


class EmptiedCheckpointError(FatalError):
    """A query begins with a checkpoint location in which it has written before."""


@dataclass(frozen=True)
class Decision:
    """The newest batch of a write that is in Kafka, and a digest of what it was made of."""

    batch: int
    digest: str
    rows: int = 0
    at_ms: int = field(default=0, compare=False)

    def text(self) -> str:
        """Return when it was committed, and with how many records."""
        return f"{self.time_text()} with {self.rows} records"

    def time_text(self) -> str:
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC)
        return f"at {at:%Y-%m-%d %H:%M:%S} UTC"

    def record(self, key: str) -> tuple[bytes, bytes | None]:
        """Return the record that decides it."""
        value = {"batch": self.batch, "digest": self.digest, "rows": self.rows, "at": self.at_ms}
        return record_key(key), encode_offset(value)


def record_key(key: str) -> bytes:
    """Return the key of the records with the decisions about a write."""
    return encode_key(_OWNER, {"id": key})


def transactional_id(key: str) -> str:
    return PREFIX + key


def is_decided(decision: Decision | None, batch: int, digest: str) -> bool:
    """Return whether a batch is written already.

    Raises DecidedOtherwiseError if it is not the one that was decided, so that nothing is skipped in silence.
    """
    if decision is None or batch > decision.batch:
        return False
    if (batch, digest) == (decision.batch, decision.digest):  # E23
        return True
    newest = f"batch {decision.batch} is the newest that is written"
    what = "made of other offsets" if batch == decision.batch else newest
    raise DecidedOtherwiseError(
        f"batch {batch} is not written: in Kafka it is decided, but {what}. Another driver runs the query, or its "
        "checkpoint was copied or edited. To write these rows nevertheless, start it with a new checkpoint location"
    )


def ensure_kept(decision: Decision | None, batch: int, least: int, topic: str) -> None:
    """Raise MissingDecisionError if the newest decision is older than it can be: `batch` may be written already."""
    if (-1 if decision is None else decision.batch) >= least:
        return
    newest = "no decision about this query" if decision is None else f"batch {decision.batch} as the newest"
    raise MissingDecisionError(
        f"batch {batch} is not written: topic {topic} has {newest}, although a later one is written, and so this batch "
        "may be in Kafka, too. The topic was emptied, deleted or restored, is of another cluster, or another sink has "
        f"written since. Look into the output: if it lacks the batch, remove {DECIDED} from the checkpoint location, "
        "and start the query again, which writes it"
    )


def home_of(query_id: str, location: str) -> str:
    """Return the name under which a query with option `query.id` is recorded, besides its decisions.

    The record is a decision whose digest is the id that the query has in its checkpoint: an emptied one has another.
    """
    return f"{query_id} with checkpoint location {location.rstrip('/')}"


def ensure_first(found: Decision | None, home: str, key: str) -> None:
    """Raise EmptiedCheckpointError if a query that nothing is decided about is not the one that has written there."""
    if found is None or found.digest == key:
        return
    raise EmptiedCheckpointError(
        f"nothing is written: {home} has written before, from a start {found.time_text()}, and nothing of that is in "
        "the checkpoint now. If its file system is missing, mount it, and start the query again. To begin again, set "
        "another checkpoint location; for a connector, you can also stop it and delete its offsets"
    )


def newest_decision(key: str, options: Mapping[str, str]) -> Decision | None:
    """Return the newest batch that is in Kafka of a query, by its id (`query.id`), or of a write, by its `write.id`.

    `options` are those of the writer. Waits while a transaction is open that may hold a decision.
    """
    with closing(DecisionTopic(WriterConfig.of(options))) as topic:
        return topic.newest(key)


class DecisionTopic:
    """Reads the decisions of one cluster's topic. Creates it if it is missing."""

    def __init__(self, config: WriterConfig, after: Mapping[int, int] | None = None) -> None:
        """`after` is an offset of each partition before which there is no decision that will be looked for.

        Raises ConfigError if the topic is not compacted, and KafkaUnavailableError.
        """
        self.ends: dict[int, int] = {}
        """How far each partition was looked through."""
        self._config = config
        self._after = after or {}
        self._topic = config.offsets_topic
        self._found_in: dict[str, int] = {}
        self._admin = Admin(config.conf(ClientKind.ADMIN))
        try:
            ensure_compacted(self._admin, _internal(self._topic))
            found = self._admin.topics.get(self._topic)
        except BaseException:
            self.close()
            raise
        if found is None:
            raise MissingTopicError(f"Topic {self._topic} does not exist", _UNKNOWN_TOPIC)
        self._partitions = found.partitions

    def partition(self, key: str) -> int:
        """Return where the decisions of a write go: where `newest` has found one, or by its key.

        If the topic grows, they stay where they are. Otherwise an older one could be where the newest is looked for.
        """
        by_key = int(partitions_of(pa.array([record_key(key)], pa.binary()), self._partitions)[0].as_py())
        return self._found_in.get(key, by_key)

    def newest(self, key: str) -> Decision | None:
        """Return the newest decision of a write, once no transaction is open that may hold one.

        The caller must have taken over the transactional id of the write: before, its predecessor may still decide.
        """
        by_key = self.partition(key)
        for partition in (by_key, *(each for each in range(self._partitions) if each != by_key)):
            values = self._newest_values(TopicPartition(self._topic, partition), record_key(key))
            if values:
                self._found_in[key] = partition
                return _decision(values[-1])
        return None

    def pass_over(self) -> None:
        """Count all that is there as looked through: for a write with a new id."""
        places = [TopicPartition(self._topic, each) for each in range(self._partitions)]
        found = self._admin.offsets.ends(places, read_committed=False)
        self.ends = {partition: end for (_, partition), end in found.items()}

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._admin.close()

    def _newest_values(self, place: TopicPartition, key: bytes) -> list[bytes | None]:
        """Return the values of the last records with a key, in order; the window that has some is the last read."""
        end = self.ends[place.partition] = self._settled_end(place)
        low = max(*self._admin.offsets.starts([place]).values(), self._after.get(place.partition, 0))
        size = _TAIL
        while end > low:
            start = max(low, end - size)
            values = [*self._values(LogRange(place, start, end), key)]
            if values:
                return values
            end, size = start, size * _WIDER
        return []

    def _values(self, wanted: LogRange, key: bytes) -> Iterator[bytes | None]:
        batches = RangeInput(self._config.range_conf(), wanted, columns=schema(["key", "value"])).batches()
        with closing(batches):
            for batch in batches:
                yield from batch.column("value").filter(pc.equal(batch.column("key"), key)).to_pylist()

    def _settled_end(self, place: TopicPartition) -> int:
        """Return the end of a partition, once no transaction is open before it.

        Raises ReadTimeoutError if one stays open.
        """
        (end,) = self._admin.offsets.ends([place], read_committed=False).values()
        began_s = time.monotonic()
        are_ended = False
        while next(iter(self._admin.offsets.ends([place], read_committed=True).values())) < end:
            waited_s = time.monotonic() - began_s
            if waited_s > _SETTLE_S:
                raise ReadTimeoutError(
                    f"a transaction has been open in {place.topic}-{place.partition} for {_SETTLE_S:g} s, and may hold "
                    "a decision. `kafka-transactions.sh describe-producers` names it"
                )
            if waited_s > _SUSPICIOUS_S and not are_ended:
                self._end_abandoned(place)
                are_ended = True
            time.sleep(_LOOK_EVERY_S)
        return int(end)

    def _end_abandoned(self, place: TopicPartition) -> None:
        """Fence the writers that hold a partition: their drivers are gone.

        No heartbeat is needed: a living writer that is fenced by mistake takes its id again, and finds its decision or
        writes again. Never raises: in the end the broker aborts what is abandoned.
        """
        transactions = TransactionAdmin(self._config.conf(ClientKind.ADMIN))
        conf = self._config.conf(ClientKind.PRODUCER)
        try:
            holders = [*transactions.producers(*place)]
            for each in transactions.list(["Ongoing"], holders) if holders else ():
                if each.transactional_id.startswith(PREFIX):
                    log.warning("ending transaction %s: it holds topic %s", each.transactional_id, place.topic)
                    lock_out(TransactionalWriter(conf, each.transactional_id), _FENCE_S)
        except Exception as error:
            log.warning("cannot end what holds topic %s; the broker does after its timeout: %s", place.topic, error)
        finally:
            transactions.close()


def _decision(value: bytes | None) -> Decision | None:
    if value is None:
        return None
    found: Any = orjson.loads(value)
    return Decision(int(found["batch"]), str(found["digest"]), int(found["rows"]), int(found["at"]))


def _internal(topic: str) -> InternalTopic:
    return InternalTopic(
        topic,
        "offsets.topic",
        "default.replication.factor",
        "decisions about what is written",
        partitions=_PARTITIONS,
        replication=-1,
        configs={"segment.bytes": _SEGMENT_BYTES},
        place="of the write",
        outcome="rows that a rerun writes again",
    )
