"""What sinks and sources have in common of dead letters: their topic, and the headers that tell of them (KIP-298)."""

import logging
import traceback
from collections.abc import Mapping
from typing import Any, Protocol

from fencepost.api import Converter, FatalError, HeaderConverter, Predicate, SinkRecord, Transform
from fencepost.config.connector import DeadLetterConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import TooFewBrokersError
from fencepost.record import HeaderBytes
from fencepost.task.spec import TaskSpec
from fencepost.telemetry.traces import trace_of

log = logging.getLogger(__name__)

PREFIX = "__connect.errors."
TOPIC, PARTITION, OFFSET = f"{PREFIX}topic", f"{PREFIX}partition", f"{PREFIX}offset"
CONNECTOR, TASK, STAGE = f"{PREFIX}connector.name", f"{PREFIX}task.id", f"{PREFIX}stage"
CLASS, EXCEPTION = f"{PREFIX}class.name", f"{PREFIX}exception.class.name"
MESSAGE, STACKTRACE = f"{PREFIX}exception.message", f"{PREFIX}exception.stacktrace"

RESENT = "__fencepost.resent."
RESENT_TOPIC, RESENT_PARTITION, RESENT_OFFSET = f"{RESENT}topic", f"{RESENT}partition", f"{RESENT}offset"
"""Where a record came from that was sent again to the sink's own topic for that."""
RESENT_TIMESTAMP = f"{RESENT}timestamp"
"""The time that a record had at first, in milliseconds since 1970, of one that was sent again anywhere."""

TIMESTAMP = "__fencepost.record.timestamp"
"""The time of a letter's record. The letter has its own: by the record's, retention would delete it at once."""

_LONGEST_FACT = 10_000


def ensure_topics(spec: TaskSpec) -> None:
    """Create the topic, and that to send letters again, where it is missing. Raises what Kafka says where it cannot."""
    admin, key = Admin(spec.admin_conf), DeadLetterConfig.key_of("dead_letters_replication")
    for topic in filter(None, (spec.dead_letters_topic, spec.resend_topic)):
        try:
            is_new = admin.ensure_topic(topic, partitions=1, replication=spec.dead_letters_replication)
        except TooFewBrokersError as error:
            text = f"{key}={spec.dead_letters_replication} is more than there are brokers for topic {topic}: {error}"
            raise FatalError(f"{text}. Set {key} to their number, or create the topic") from error
        if is_new:
            log.info("created the topic %s for dead letters of connector %s", topic, spec.connector)


def context_headers(
    spec: TaskSpec, origin: Mapping[str, Any], stage: str, class_name: str, error: Exception
) -> list[HeaderBytes]:
    """Return where a record was (`origin`: by TOPIC, PARTITION and OFFSET), what failed, and why."""
    kind = type(error)
    facts = {
        **origin,
        CONNECTOR: spec.connector,
        TASK: spec.task,
        STAGE: stage,
        CLASS: class_name,
        EXCEPTION: f"{kind.__module__}.{kind.__qualname__}",
        MESSAGE: error,
        STACKTRACE: trace_of(error),
    }
    return [(name, str(fact)[:_LONGEST_FACT].encode("utf-8", "replace")) for name, fact in facts.items()]


def time_headers(timestamp: Any) -> list[HeaderBytes]:
    """Return the header that keeps a record's time; none where it has no time that a record of Kafka can have."""
    return [(TIMESTAMP, b"%d" % timestamp)] if isinstance(timestamp, int) and timestamp >= 0 else []


def origin_of(record: SinkRecord) -> dict[str, Any]:
    """Return where a record was read, by TOPIC, PARTITION and OFFSET."""
    topic, partition = record.at or (record.topic, record.kafka_partition)
    return {TOPIC: topic, PARTITION: partition, OFFSET: record.kafka_offset}


class Converting(Protocol):
    """What names the classes of its converters: a `Processor` or a `SinkProcessor`."""

    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter


def class_of(processor: Converting, stage: str, error: Exception) -> str:
    """Return the class whose code failed: a converter's by the stage, a transform's by where the error arose."""
    by_stage = {
        "KEY_CONVERTER": processor.key_converter,
        "VALUE_CONVERTER": processor.value_converter,
        "HEADER_CONVERTER": processor.header_converter,
    }
    found: object = by_stage.get(stage) or error
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, Transform | Predicate):
            found = owner
    return f"{type(found).__module__}.{type(found).__qualname__}"
