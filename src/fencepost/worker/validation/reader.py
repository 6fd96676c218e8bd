"""Checks of what reads topics: sinks, and streams, which also write.

Sinks: whether they can read their topics with the group that they name; the texts are Kafka Connect's. Streams: their
output, the transactions in which they commit offsets, and loops. A stream that would certainly read its own output is
refused, by examples of names that its pattern matches; other cases are detected when it runs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from fencepost.api import ConfigError, DataFrameStream, RecordError, RetriableError
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.builtin.transform.java_regex import compiled
from fencepost.config.check import LONGEST_TOPIC
from fencepost.config.cluster import CLOSED
from fencepost.config.connector import OUTPUT, ConnectorConfig, SinkChoice, SinkConnectorConfig, output_properties
from fencepost.config.reference import given_values, names_in
from fencepost.kafka.setting.client_settings import NEWER_PROTOCOL, PROTOCOL
from fencepost.plugin import PluginRegistry
from fencepost.plugin.kind import ROUTERS
from fencepost.record import Repeated
from fencepost.task.sink.reader import ReadTopics
from fencepost.worker.closed_topics import closed_by_name
from fencepost.worker.plan import BOOTSTRAP, CONSUMER, PRODUCER, AnyStream
from fencepost.worker.validation.chain import (
    Examination,
    Faults,
    Findings,
    below,
    converter_faults,
    converter_reports,
    invalid,
    transform_findings,
)

_MOST = 200
_LETTERS = "xX0-._"
_TOPIC_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST_TOPIC}}}")

_GROUP = "consumer.override.group.id"
_OVERRIDDEN_PROTOCOL = f"consumer.override.{PROTOCOL}"
_TOPICS, _REGEX, _DEAD_LETTERS = (
    SinkConnectorConfig.key_of(name) for name in ("topics", "topics_regex", "dead_letters_topic")
)
_HEADERS, _RESEND = SinkConnectorConfig.key_of("dead_letters_headers"), SinkChoice.key_of("resend_topic")
_NAME = ConnectorConfig.key_of("name")


def matching_names(pattern: str) -> list[str]:
    """Return names of topics that a Java regular expression matches, some for each of its branches.

    Returns none if the expression is wrong or too complex.
    """
    try:
        own = compiled(pattern)
        made = list(_of(re._parser.parse(own.pattern)))  # type: ignore[attr-defined]
        return sorted({name for name in made if _TOPIC_NAME.fullmatch(name) and own.fullmatch(name)})
    except (NotImplementedError, RecordError, re.error, RecursionError):
        return []


def _of(tokens: Any) -> list[str]:
    parts = [_choices(str(kind), value) for kind, value in tokens]
    return ["".join(chosen) for chosen in islice(product(*parts), _MOST)]


def _choices(kind: str, value: Any) -> list[str]:
    match kind:
        case "LITERAL":
            return [chr(value)]
        case "ANY":
            return ["x"]
        case "NOT_LITERAL":
            return ["x" if value != ord("x") else "y"]
        case "IN":
            return _of_class(value)
        case "BRANCH":
            return [name for branch in value[1] for name in _of(branch)]
        case "SUBPATTERN":
            return _of(value[3])
        case "ATOMIC_GROUP":
            return _of(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            counts = [count for count in (least, least + 1) if count <= min(int(most), LONGEST_TOPIC)]
            names = _of(inner)
            made = [name * count for count in counts if count for name in names if len(name) * count <= LONGEST_TOPIC]
            return made if least else ["", *made]
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return [""]
    raise NotImplementedError(kind)


def _of_class(items: Any) -> list[str]:
    is_negated = any(str(kind) == "NEGATE" for kind, _ in items)
    named = [
        chr(value[0] if str(kind) == "RANGE" else value) for kind, value in items if str(kind) in ("LITERAL", "RANGE")
    ]
    return [*([] if is_negated else named[:2]), *_LETTERS][:8]


_ISOLATION = "consumer.override.isolation.level"
_KEY = DataFrameStream.key_of("topic")
_SQL, _CHECKPOINT = (SqlStream.key_of(name) for name in ("sql", "checkpoint"))
_BUILT_IN = "fencepost.builtin.transform."
_OF_THE_WAY_OUT = [
    ConnectorConfig.key_of(name)
    for name in ("key_converter", "value_converter", "header_converter", "transforms", "predicates")
]


def output_faults(case: Examination) -> Faults:
    """Check the output's settings like those of any connector; faults are reported with their full keys."""
    output, found = below(OUTPUT, case.given), Findings()
    found.add(value for value in ConnectorConfig.validate_values(output) if value.setting.key in _OF_THE_WAY_OUT)
    found.add(transform_findings(output, case.plugins))
    for key, text in converter_faults(found, output, case.plugins, {}):
        found.fault(key, text)
    errors = {key: list(texts) for key, texts in found.errors.items()}
    for report in converter_reports(found, output, case.plugins):
        errors.setdefault(report.value.name, []).extend(report.value.errors)
    for key, texts in errors.items():
        own = OUTPUT + key
        for text in texts:
            if text.replace(key, own) not in case.findings.errors.get(own, ()):
                yield own, text.replace(key, own)


def cluster_faults(case: Examination) -> Faults:
    """Refuse two clusters: a transaction in one cannot contain offsets of a group in another."""
    clients = case.plan.clients
    read, written = (
        clients.own(kind).get(BOOTSTRAP) or str(clients.shared(kind)[BOOTSTRAP]) for kind in (CONSUMER, PRODUCER)
    )
    if set(names_in(read)) != set(names_in(written)):
        key = f"producer.override.{BOOTSTRAP}"
        yield (
            key,
            f"{key}: a stream reads and writes one cluster, and commits its offsets with its output, but {written} is "
            f"not {read}, where it reads. Set the same consumer.override.{BOOTSTRAP}, or mirror the output",
        )


def isolation_faults(case: Examination) -> Faults:
    if case.text(_ISOLATION).lower() == "read_uncommitted":
        why = "a stream's output must not outlive the records that it was made from, so it reads only committed ones"
        yield _ISOLATION, f"{_ISOLATION}: {why}. Remove {_ISOLATION}."


def loop_faults(case: Examination) -> Faults:
    """Refuse records of an input topic that would go to an input topic."""
    stream = case.instance
    assert isinstance(stream, AnyStream)
    if not all(case.findings.is_valid(key) for key in (_TOPICS, _REGEX)):
        return
    pattern = case.text(_REGEX)
    read = ReadTopics((*names_in(case.given.get(_TOPICS)), *names_in(case.text(_RESEND))), pattern)
    route = _Route.of(stream, case.given, case.plugins)
    for topic in (*read.names, *(matching_names(pattern) if pattern else ())):
        target = route.target(topic)
        if target is not None and read.has(target):
            how = f", as {_REGEX}={pattern} matches it" if target not in read.names else ""
            yield (
                _KEY,
                f"{_KEY}: records of topic {topic} would go to {target}, which this connector also reads{how}: it "
                "would read them again, forever. Name another topic, or read fewer topics",
            )
            return


def checkpoint_faults(case: Examination) -> Faults:
    """Say what the checkpoint is for, if the config names none."""
    if not case.text(_CHECKPOINT):
        yield (
            _CHECKPOINT,
            f"{_CHECKPOINT}: Spark keeps the query's state and its position in the topics there, and any worker must "
            "find them. Name a directory that all workers and executors reach, which no other connector uses",
        )


def query_faults(case: Examination) -> Faults:
    """Let Spark analyse a query. Nothing is read; while there is no Spark, its task finds the faults."""
    from fencepost.spark.query.frame import QueryFrames, reading_options
    from fencepost.spark.session.session import new_session, running_spark

    query = case.instance
    assert isinstance(query, SqlStream)
    try:
        frames, spark = QueryFrames(query, given_values(case.plan.effective)), running_spark()
        if not case.asks_systems:
            return
        if spark is None:
            case.warn(_SQL, "it was not checked, as Spark does not run here now: its task says what is wrong")
        else:
            frames.records(new_session(spark), reading_options(case.plan.clients.consumer_properties))
    except ConfigError as error:
        for text in error.messages:
            yield text.partition("=")[0].partition(":")[0], text
    except RetriableError as error:
        case.warn(_SQL, f"it was not checked: {error}")


@dataclass(frozen=True)
class _Route:
    """The way from one topic to another; a chain is None if its effect on the topic depends on the record."""

    stream: AnyStream
    before: Chain | None
    behind: Chain | None

    @classmethod
    def of(cls, stream: AnyStream, given: Mapping[str, str], plugins: PluginRegistry) -> "_Route":
        if isinstance(stream, DataFrameStream | SqlStream):
            return cls(stream, Chain(), Chain())
        return cls(stream, _chain(given, plugins), _chain(output_properties(given), plugins))

    def target(self, topic: str) -> str | None:
        """Return where records of a topic go; None if that is not known yet."""
        if isinstance(self.stream, DataFrameStream | SqlStream):
            return self.stream.topic
        incoming = _through(self.before, topic)
        constant = self.stream.output_topic(None)
        outgoing = constant if constant is not None or incoming is None else self.stream.output_topic(incoming)
        return None if outgoing is None else _through(self.behind, outgoing)


def _chain(properties: Mapping[str, str], plugins: PluginRegistry) -> Chain | None:
    try:
        return Chain.from_config(properties, plugins.find)
    except ConfigError:  # reported as a separate fault
        return None


def _through(chain: Chain | None, topic: str) -> str | None:
    for link in () if chain is None else chain.links:
        changed = _of_link(link, topic)
        if changed is None:
            return None
        topic = changed
    return None if chain is None else topic


def _of_link(link: Link, topic: str) -> str | None:
    changed = link.transform.apply_topics(Repeated(topic, 1))
    if changed is None:  # the transform looks at records
        kind = type(link.transform)
        return topic if kind.__module__.startswith(_BUILT_IN) and kind.__name__ not in ROUTERS else None
    return topic if changed[0] == topic else (changed[0] if link.predicate is None else None)


def topic_faults(case: Examination) -> Faults:
    topics, regex = case.text(_TOPICS), case.text(_REGEX)
    if topics and len(set(_parts(topics))) < len(_parts(topics)):
        yield _TOPICS, f"Configuration '{_TOPICS}' values must not be duplicated."
    if topics and regex:
        for key in (_TOPICS, _REGEX):
            yield key, f"{_TOPICS} and {_REGEX} are mutually exclusive options, but both are set."
    elif not topics and not regex:
        for key in (_TOPICS, _REGEX):
            yield key, f"Must configure one of {_TOPICS} or {_REGEX}"
    if regex:
        try:
            compiled(regex)
        except (ValueError, re.error) as error:
            yield _REGEX, invalid(_REGEX, regex, f"Invalid regex: {error}")


def closed_pattern_faults(case: Examination) -> Faults:
    """Refuse a pattern for nothing but closed topics, which are left out of what it matches."""
    regex = case.text(_REGEX)
    names = matching_names(regex) if regex and case.findings.is_valid(_REGEX) else []
    if names and all(map(closed_by_name(case.plan).reads.has, names)):
        yield _REGEX, invalid(_REGEX, regex, f"it matches topics such as {names[0]}: {CLOSED}")


def _parts(topics: str) -> list[str]:
    return [part.strip() for part in topics.split(",")]


def _is_matched(case: Examination, name: str) -> bool:
    regex = case.text(_REGEX)
    return bool(regex) and case.findings.is_valid(_REGEX) and compiled(regex).fullmatch(name) is not None


def dead_letter_faults(case: Examination) -> Faults:
    name = case.text(_DEAD_LETTERS)
    if not name:
        return
    if name in names_in(case.given.get(_TOPICS)):
        yield (
            _TOPICS,
            f"The DLQ topic '{name}' may not be included in the list of topics "
            f"('{_TOPICS}=[{', '.join(_parts(case.given[_TOPICS]))}]') consumed by the connector",
        )
    if _is_matched(case, name):
        yield (
            _REGEX,
            f"The DLQ topic '{name}' may not be matched by the regex for the topics ('{_REGEX}={case.text(_REGEX)}') "
            "consumed by the connector",
        )


def resend_faults(case: Examination) -> Faults:
    """Check the topic for resending dead letters: they need headers with their origin, and the topic for themselves."""
    name = case.text(_RESEND)
    if not name:
        return
    if not case.given.get(_DEAD_LETTERS) or case.text(_HEADERS).lower() != "true":
        yield (
            _RESEND,
            f"{_RESEND} needs dead letters with headers about their origin: set {_DEAD_LETTERS}, and {_HEADERS}=true",
        )
    if _is_matched(case, name) or name in (*names_in(case.given.get(_TOPICS)), case.text(_DEAD_LETTERS)):
        yield _RESEND, f"{_RESEND}: '{name}' is used by this connector already; choose a topic for this alone"


def group_faults(case: Examination) -> Faults:
    override, name, own = case.given.get(_GROUP), case.given.get(_NAME), case.worker.group_id
    if override is not None and override.strip() == own:
        yield _GROUP, f"Consumer group {own} conflicts with Connect worker group {own}"
    elif override is None and f"connect-{name or ''}" == own:
        yield _NAME, f"Consumer group for sink connector named {name} conflicts with Connect worker group {own}"


def protocol_faults(case: Examination) -> Faults:
    key = _OVERRIDDEN_PROTOCOL
    if case.text(key).lower() == NEWER_PROTOCOL:
        yield (
            key,
            f"{key}: sinks and streams are distinguished from their predecessors by the group generation of their "
            "assignment, which the newer protocol (KIP-848) also changes at other times; it also keeps dead members "
            f"from being removed. Remove {key}.",
        )
