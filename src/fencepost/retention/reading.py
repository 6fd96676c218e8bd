"""Which sinks of a cluster read which topics, by nothing but what the config topic says of them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencepost.config import ConfigError
from fencepost.config.raw import RawConfig
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transform.java_regex import compiled

_TOPICS, _REGEX, _RESENT = "topics", "topics.regex", "errors.deadletterqueue.resend.topic.name"


@dataclass(frozen=True)
class SinkReading:
    """What a sink reads, whether its tasks run or not.

    Two that are equal read the same topics through the same group of the same brokers.

    Attributes:
        topics: those that its config names.
        regex: the pattern of others, as Java writes it; empty: there is none.
        servers: the brokers that it reads from, as its config or the worker's has them.
        conf: what asks for its group's offsets, as its principal.
        fault: why that cannot be asked; empty: it can.
    """

    connector: str
    group: str
    topics: frozenset[str]
    regex: str
    servers: str
    conf: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    fault: str = field(default="", compare=False)

    def covers(self, topic: str) -> bool:
        """Say whether a topic is among what it reads. A pattern that cannot be read covers every topic."""
        return topic in self.topics or self._matches(topic)

    def _matches(self, topic: str) -> bool:
        if not self.regex:
            return False
        try:
            return compiled(self.regex).fullmatch(topic) is not None
        except (ConfigError, ValueError, re.error):
            return True


Readings = tuple[SinkReading, ...]


class SinkSettings(Protocol):
    """What is needed of the worker's settings."""

    def sink_group(self, connector: str, connector_config: RawConfig) -> str: ...

    def sink_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]: ...


def readings(
    snapshot: ClusterSnapshot, settings: SinkSettings, is_source: Callable[[ClusterSnapshot, str], bool]
) -> Readings:
    """Return what every sink reads, by its name. One whose class is not here counts, if its config names topics."""
    return tuple(
        reading(name, config, settings)
        for name, config in sorted(snapshot.connectors.items())
        if not is_source(snapshot, name) and (config.get(_TOPICS) or config.get(_REGEX))
    )


def reading(connector: str, config: RawConfig, settings: SinkSettings) -> SinkReading:
    """Return what a sink with this config reads."""
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
