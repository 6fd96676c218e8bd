"""Whether a sink can read the topics that its config names, with the group that it names."""

import re
from collections.abc import Mapping

from fencepost.builtin.transform.java_regex import compiled
from fencepost.config.closed_topics import CLOSED
from fencepost.config.connector import ConnectorConfig, SinkChoice, SinkConnectorConfig
from fencepost.config.raw import names_in
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.setting.client_settings import NEWER_PROTOCOL, PROTOCOL
from fencepost.worker.closed_topics import closed_by_name
from fencepost.worker.validation.findings import Findings, invalid
from fencepost.worker.validation.names import matching_names

_GROUP = "consumer.override.group.id"
_OVERRIDDEN_PROTOCOL = f"consumer.override.{PROTOCOL}"
_TOPICS, _REGEX, _DEAD_LETTERS = (
    SinkConnectorConfig.key_of(name) for name in ("topics", "topics_regex", "dead_letters_topic")
)
_HEADERS, _RESEND = SinkConnectorConfig.key_of("dead_letters_headers"), SinkChoice.key_of("resend_topic")
_NAME = ConnectorConfig.key_of("name")


def check_sink(findings: Findings, given: Mapping[str, str], worker: WorkerConfig) -> None:
    """Check what only a sink has. The texts are Kafka Connect's."""
    _check_topics(findings, given)
    _check_regex(findings, given, worker)
    _check_dead_letters(findings, given)
    _check_resend(findings, given)
    _check_group(findings, given, worker)
    _check_protocol(findings, given)


def _check_topics(findings: Findings, given: Mapping[str, str]) -> None:
    topics, regex = (given.get(_TOPICS) or "").strip(), (given.get(_REGEX) or "").strip()
    if topics and len(set(_parts(topics))) < len(_parts(topics)):
        findings.fault(_TOPICS, f"Configuration '{_TOPICS}' values must not be duplicated.")
    if topics and regex:
        for key in (_TOPICS, _REGEX):
            findings.fault(key, f"{_TOPICS} and {_REGEX} are mutually exclusive options, but both are set.")
    elif not topics and not regex:
        for key in (_TOPICS, _REGEX):
            findings.fault(key, f"Must configure one of {_TOPICS} or {_REGEX}")
    if regex:
        try:
            compiled(regex)
        except (ValueError, re.error) as error:
            findings.fault(_REGEX, invalid(_REGEX, regex, f"Invalid regex: {error}"))


def _check_regex(findings: Findings, given: Mapping[str, str], worker: WorkerConfig) -> None:
    """Refuse a pattern for nothing but closed topics, which are left out of what it matches."""
    regex = (given.get(_REGEX) or "").strip()
    names = matching_names(regex) if regex and findings.is_valid(_REGEX) else []
    if names and all(map(closed_by_name(worker, given).reads.has, names)):
        findings.fault(_REGEX, invalid(_REGEX, regex, f"it matches topics such as {names[0]}: {CLOSED}"))


def _parts(topics: str) -> list[str]:
    """Return the entries of a list, including empty ones."""
    return [part.strip() for part in topics.split(",")]


def _check_dead_letters(findings: Findings, given: Mapping[str, str]) -> None:
    name = (given.get(_DEAD_LETTERS) or "").strip()
    if not name:
        return
    if name in names_in(given.get(_TOPICS)):
        findings.fault(
            _TOPICS,
            f"The DLQ topic '{name}' may not be included in the list of topics "
            f"('{_TOPICS}=[{', '.join(_parts(given[_TOPICS]))}]') consumed by the connector",
        )
    regex = (given.get(_REGEX) or "").strip()
    if regex and findings.is_valid(_REGEX) and compiled(regex).fullmatch(name):
        findings.fault(
            _REGEX,
            f"The DLQ topic '{name}' may not be matched by the regex for the topics ('{_REGEX}={regex}') consumed by "
            "the connector",
        )


def _check_resend(findings: Findings, given: Mapping[str, str]) -> None:
    """Check the topic for resending dead letters: they need headers with their origin, and the topic for themselves."""
    name = (given.get(_RESEND) or "").strip()
    if not name:
        return
    if not given.get(_DEAD_LETTERS) or (given.get(_HEADERS) or "").strip().lower() != "true":
        findings.fault(
            _RESEND,
            f"{_RESEND} needs dead letters with headers about their origin: set {_DEAD_LETTERS}, and {_HEADERS}=true",
        )
    regex = (given.get(_REGEX) or "").strip()
    is_matched = bool(regex) and findings.is_valid(_REGEX) and compiled(regex).fullmatch(name) is not None
    if is_matched or name in (*names_in(given.get(_TOPICS)), (given.get(_DEAD_LETTERS) or "").strip()):
        findings.fault(_RESEND, f"{_RESEND}: '{name}' is used by this connector already; choose a topic for this alone")


def _check_group(findings: Findings, given: Mapping[str, str], worker: WorkerConfig) -> None:
    override = given.get(_GROUP)
    if override is not None and override.strip() == worker.group_id:
        findings.fault(
            _GROUP, f"Consumer group {override.strip()} conflicts with Connect worker group {worker.group_id}"
        )
    elif override is None and f"connect-{given.get(_NAME, '')}" == worker.group_id:
        findings.fault(
            _NAME,
            f"Consumer group for sink connector named {given.get(_NAME)} conflicts with Connect worker group "
            f"{worker.group_id}",
        )


def _check_protocol(findings: Findings, given: Mapping[str, str]) -> None:
    key = _OVERRIDDEN_PROTOCOL
    if (given.get(key) or "").strip().lower() == NEWER_PROTOCOL:
        findings.fault(
            key,
            f"{key}: sinks and streams are distinguished from their predecessors by the group generation of their "
            "assignment, which the newer protocol (KIP-848) also changes at other times; it also keeps dead members "
            f"from being removed. Remove {key}.",
        )
