"""Refuses a stream that would certainly read its own output; other cases are detected when it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.api import ConfigError, DataFrameStream, StreamConnector
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.config.connector import SinkChoice, SinkConnectorConfig
from fencepost.config.output import output_properties
from fencepost.config.raw import names_in
from fencepost.plugin import PluginRegistry
from fencepost.plugin.builtin import ROUTERS
from fencepost.record import Repeated
from fencepost.task.sink.reader import ReadTopics
from fencepost.worker.validation.findings import Findings
from fencepost.worker.validation.names import matching_names

_TOPICS, _REGEX = (SinkConnectorConfig.key_of(name) for name in ("topics", "topics_regex"))
_RESEND = SinkChoice.key_of("resend_topic")
_KEY = DataFrameStream.key_of("topic")
_BUILT_IN = "fencepost.builtin.transform."


def check_loop(
    findings: Findings,
    stream: StreamConnector | DataFrameStream,
    given: Mapping[str, str],
    plugins: PluginRegistry,
) -> None:
    """Add a fault if records of an input topic would go to an input topic."""
    if not all(findings.is_valid(key) for key in (_TOPICS, _REGEX)):
        return
    pattern, resend = (given.get(_REGEX) or "").strip(), (given.get(_RESEND) or "").strip()
    read = ReadTopics((*names_in(given.get(_TOPICS)), *names_in(resend)), pattern)
    route = _Route.of(stream, given, plugins)
    for topic in (*read.names, *(matching_names(pattern) if pattern else ())):
        target = route.target(topic)
        if target is not None and read.has(target):
            how = f", as {_REGEX}={pattern} matches it" if target not in read.names else ""
            findings.fault(
                _KEY,
                f"{_KEY}: records of topic {topic} would go to {target}, which this connector also reads{how}: it "
                "would read them again, forever. Name another topic, or read fewer topics",
            )
            return


@dataclass(frozen=True)
class _Route:
    """The way from one topic to another; a chain is None if its effect on the topic depends on the record."""

    stream: StreamConnector | DataFrameStream
    before: Chain | None
    behind: Chain | None

    @classmethod
    def of(
        cls, stream: StreamConnector | DataFrameStream, given: Mapping[str, str], plugins: PluginRegistry
    ) -> "_Route":
        if isinstance(stream, DataFrameStream):
            return cls(stream, Chain(), Chain())
        return cls(stream, _chain(given, plugins), _chain(output_properties(given), plugins))

    def target(self, topic: str) -> str | None:
        """Return where records of a topic go; None if that is not known yet."""
        if isinstance(self.stream, DataFrameStream):
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
