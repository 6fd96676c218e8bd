"""Finds which sinks of a cluster read which topics, from the config topic alone."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencepost.api import RecordError
from fencepost.builtin.transform.java_regex import compiled
from fencepost.config import ConfigError
from fencepost.config.reference import RawConfig
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.storage.snapshot import ClusterSnapshot

_ANY = ".*"
_TOPICS, _REGEX, _RESENT = "topics", "topics.regex", "errors.deadletterqueue.resend.topic.name"


@dataclass(frozen=True)
class SinkReading:
    """The topics that a sink reads, whether or not its tasks run.

    Two equal objects read the same topics through the same group of the same brokers.

    Attributes:
        topics: the topics that its config names.
        regex: the pattern of its topics, in Java's syntax; empty if it has none.
        servers: the bootstrap servers that it reads from, from its config or the worker's.
        conf: the client settings, with the sink's principal, to ask for its group's offsets.
        fault: why the offsets cannot be asked for; empty if they can.
    """

    connector: str
    group: str
    topics: frozenset[str]
    regex: str
    servers: str
    conf: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    fault: str = field(default="", compare=False)

    def covers(self, topic: str) -> bool:
        """Return whether the sink reads a topic. A pattern that cannot be parsed, or takes too long, matches
        every topic."""
        return topic in self.topics or self._matches(topic)

    def _matches(self, topic: str) -> bool:
        if not self.regex:
            return False
        try:
            return compiled(self.regex).fullmatch(topic) is not None
        except (ConfigError, RecordError, ValueError, re.error):
            return True


Readings = tuple[SinkReading, ...]
LookUp = Callable[[RawConfig], RawConfig]
"""Returns a config with its references replaced. Raises ConfigError; KafkaUnavailableError if a store is away."""


class SinkSettings(Protocol):
    """The part of the worker's settings that is needed here."""

    def sink_group(self, connector: str, connector_config: RawConfig) -> str: ...

    def sink_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]: ...


def readings(
    snapshot: ClusterSnapshot,
    settings: SinkSettings,
    is_source: Callable[[ClusterSnapshot, str], bool],
    look_up: LookUp,
) -> Readings:
    """Return what every sink reads, by connector name. A connector of an unknown class counts if it names topics."""
    return tuple(
        reading(name, config, settings, look_up)
        for name, config in sorted(snapshot.connectors.items())
        if not is_source(snapshot, name) and (config.get(_TOPICS) or config.get(_REGEX))
    )


def reading(connector: str, config: RawConfig, settings: SinkSettings, look_up: LookUp) -> SinkReading:
    """Return the topics that a sink with this config reads.

    If what its config refers to cannot be looked up, it may read any topic, and nothing is deleted (E9).
    """
    try:
        config = look_up(config)
    except (ConfigError, KafkaUnavailableError) as error:
        return SinkReading(connector, "", frozenset(), _ANY, "", fault=str(error))
    named = {topic.strip() for topic in (config.get(_TOPICS) or "").split(",")}
    resent = (config.get(_RESENT) or "").strip()
    conf: dict[str, Any] = {}
    fault = ""
    try:
        conf = settings.sink_admin_conf(config)
    except ConfigError as error:
        fault = str(error)
    return SinkReading(
        connector,
        settings.sink_group(connector, config),
        frozenset({*named, resent} - {""}),
        (config.get(_REGEX) or "").strip(),
        str(conf.get("bootstrap.servers", "")),
        conf,
        fault,
    )
