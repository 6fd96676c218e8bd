"""Whether a sink can read the topics of its config with the group that it names. The texts are Kafka Connect's."""

import re

from fencepost.builtin.transform.java_regex import compiled
from fencepost.config.cluster import CLOSED
from fencepost.config.connector import ConnectorConfig, SinkChoice, SinkConnectorConfig
from fencepost.config.reference import names_in
from fencepost.kafka.setting.client_settings import NEWER_PROTOCOL, PROTOCOL
from fencepost.worker.closed_topics import closed_by_name
from fencepost.worker.validation.chain import Examination, Faults, invalid
from fencepost.worker.validation.stream import matching_names

_GROUP = "consumer.override.group.id"
_OVERRIDDEN_PROTOCOL = f"consumer.override.{PROTOCOL}"
_TOPICS, _REGEX, _DEAD_LETTERS = (
    SinkConnectorConfig.key_of(name) for name in ("topics", "topics_regex", "dead_letters_topic")
)
_HEADERS, _RESEND = SinkConnectorConfig.key_of("dead_letters_headers"), SinkChoice.key_of("resend_topic")
_NAME = ConnectorConfig.key_of("name")


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
