"""The topic and the headers of dead letters, of sinks and of sources (KIP-298)."""

import logging
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fencepost.api import Converter, FatalError, HeaderConverter, Predicate, SinkRecord, SourceRecord, Transform
from fencepost.config.connector import DeadLetterConfig
from fencepost.hook.hosted_task import ForeignRecordError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import TooFewBrokersError
from fencepost.record import HeaderBytes
from fencepost.record.java_value import as_java_writes
from fencepost.secret.known import hide
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.telemetry.traces import trace_of

log = logging.getLogger(__name__)

PREFIX = "__connect.errors."
TOPIC, PARTITION, OFFSET = f"{PREFIX}topic", f"{PREFIX}partition", f"{PREFIX}offset"
CONNECTOR, TASK, STAGE = f"{PREFIX}connector.name", f"{PREFIX}task.id", f"{PREFIX}stage"
CLASS, EXCEPTION = f"{PREFIX}class.name", f"{PREFIX}exception.class.name"
MESSAGE, STACKTRACE = f"{PREFIX}exception.message", f"{PREFIX}exception.stacktrace"
CONTEXT = (TOPIC, PARTITION, OFFSET, CONNECTOR, TASK, STAGE, CLASS, EXCEPTION, MESSAGE, STACKTRACE)
"""The headers about a failure, in the order in which they end a dead letter, here and in Kafka Connect."""

RESENT = "__fencepost.resent."
RESENT_TOPIC, RESENT_PARTITION, RESENT_OFFSET = f"{RESENT}topic", f"{RESENT}partition", f"{RESENT}offset"
"""Where a record came from that was resent to the sink's own topic for that."""
RESENT_TIMESTAMP = f"{RESENT}timestamp"
"""The original time of a record that was resent anywhere, in milliseconds since 1970."""
_RESENT_FACTS = (RESENT_TOPIC, RESENT_PARTITION, RESENT_OFFSET, RESENT_TIMESTAMP)

TIMESTAMP = "__fencepost.record.timestamp"
"""The time of a dead letter's record. The letter itself has a newer one, so that retention keeps it."""

_LONGEST_FACT = 10_000
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)  # less than 2**63, as Kafka's numbers are


def number_of(text: str) -> int | None:
    """Parse the number in a header, which anybody may have written: None unless it is one that Kafka can have."""
    return int(text) if _NUMBER.fullmatch(text) else None


def ensure_topics(spec: TaskSpec) -> None:
    """Create the dead letter topic and the topic for resending if they are missing. Raises Kafka's errors."""
    admin, key = Admin(spec.output.admin_conf), DeadLetterConfig.key_of("dead_letters_replication")
    for topic in filter(None, (spec.dead_letters.topic, spec.input.resend_topic)):
        try:
            is_new = admin.topics.ensure(topic, partitions=1, replication=spec.dead_letters.replication)
        except TooFewBrokersError as error:
            text = f"{key}={spec.dead_letters.replication} exceeds the number of brokers, for topic {topic}: {error}"
            raise FatalError(f"{text}. Lower {key} to that number, or create the topic") from error
        if is_new:
            log.info("created topic %s for the dead letters of connector %s", topic, spec.connector)


def context_headers(
    spec: TaskSpec, origin: Mapping[str, Any], stage: str, class_name: str, error: Exception
) -> list[HeaderBytes]:
    """Return headers: where a record was (`origin`, by TOPIC, PARTITION and OFFSET), what failed, and why."""
    kind = type(error)
    foreign = error.trace if isinstance(error, ForeignRecordError) else None
    facts = {
        **origin,
        CONNECTOR: spec.connector,
        TASK: spec.task,
        STAGE: stage,
        CLASS: class_name,
        EXCEPTION: f"{kind.__module__}.{kind.__qualname__}",
        MESSAGE: hide(str(error)),
        STACKTRACE: trace_of(error) if foreign is None else hide(foreign),
    }
    return [(name, str(fact)[:_LONGEST_FACT].encode("utf-8", "replace")) for name, fact in facts.items()]


def header_choices(
    spec: TaskSpec, record: SinkRecord | SourceRecord, given: Iterable[HeaderBytes], context: Sequence[HeaderBytes]
) -> list[list[HeaderBytes]]:
    """Return the headers of a dead letter in each form that it may have, the fullest first: the others are smaller.

    Args:
        given: The record's own headers.
        context: Those about the failure; none if they are not wanted.
    """
    headers, timestamp = _own_headers(spec, record, given), record.timestamp
    time: list[HeaderBytes] = []
    if isinstance(timestamp, int) and timestamp >= 0:
        time = [(TIMESTAMP, b"%d" % timestamp)]
    # A letter with few headers has none of the record's own about a failure, which would be believed: anybody who
    # writes to an input topic can make a record so large.
    bare = [(name, data) for name, data in headers if not name.startswith(PREFIX)]
    # With these few bytes it can be resent, or is named as one that cannot be; without them it is nobody's.
    named = [header for header in context if header[0] in (TOPIC, PARTITION, OFFSET, CONNECTOR)]
    return [*([[*headers, *time, *context], [*bare, *time, *named]] if context else []), bare + time, bare]


def _own_headers(
    spec: TaskSpec, record: SinkRecord | SourceRecord, headers: Iterable[HeaderBytes]
) -> list[HeaderBytes]:
    """Return a failed record's headers for its dead letter: all but the headers that Fencepost would believe.

    Anybody who writes to an input topic could otherwise say where a dead letter came from, or how far dead letters were
    resent. Only in the topic for resending are headers about the origin Fencepost's.
    """
    is_resent = isinstance(record, SinkRecord) and origin_of(record)[TOPIC] == (spec.input.resend_topic or None)
    kept = _RESENT_FACTS if is_resent else ()
    own = [(as_java_writes(name), data) for name, data in headers]
    return [(name, data) for name, data in own if not name.startswith(RESENT) or name in kept]


def origin_of(record: SinkRecord) -> dict[str, Any]:
    """Return where a record was read, by TOPIC, PARTITION and OFFSET."""
    topic, partition = record.at or (record.topic, record.kafka_partition)
    return {TOPIC: topic, PARTITION: partition, OFFSET: record.kafka_offset}


class Converting(Protocol):
    """Has converters whose classes can be named: a `Processor` or a `SinkProcessor`."""

    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter


def class_of(processor: Converting, stage: str, error: Exception) -> str:
    """Return the class whose code failed: the stage's converter, or the transform in which the error arose."""
    if isinstance(error, ForeignRecordError):
        return error.operation
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
