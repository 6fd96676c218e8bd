"""A MirrorMaker 2 file: its clusters and flows, and the settings of each.

A key has no prefix, the prefix of a cluster (`west.`), or that of a flow (`west->east.`). Settings are combined as
follows, and later ones win:

- a worker: defaults of every worker, worker settings without a prefix, those of the target cluster, storage topics,
  converters and `task` without a prefix (as in Kafka's MirrorMaker), those of the flow;
- a connector: its settings without a prefix, connection and client settings of both clusters, those of the flow.

Connection settings without a prefix (`security.protocol`, `ssl.`, `sasl.`) apply to every cluster.

References to config providers are looked up for the workers. The connectors' configs, which are stored in Kafka, keep
them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import permutations
from pathlib import Path

from fencepost.api import HIGH, Config, ConfigError, non_empty, setting
from fencepost.builtin.mirror.dedicated.flow import (
    ARROW,
    Flow,
    FlowChoice,
    connector_keys,
    is_for_connectors,
    is_for_connectors_alone,
    is_for_workers,
    is_for_workers_alone,
)
from fencepost.builtin.mirror.setting.clients import is_to_connect
from fencepost.config.properties import read_properties
from fencepost.config.reference import has_references
from fencepost.config.worker import WorkerConfig, nearest
from fencepost.reference.providers import worker_properties

_BOOTSTRAP = WorkerConfig.key_of("bootstrap_servers")
_Parts = Mapping[str, Mapping[str, str]]
"""The settings of a file by their prefix, which is empty or ends in a point, and without it."""


class MirrorFile(Config):
    """A parsed MirrorMaker 2 file. The constructor raises ConfigError with all faults at once."""

    clusters: list[str] = setting("clusters", check=non_empty(), importance=HIGH, doc="The aliases of the clusters.")
    has_internal_rest: bool = setting(
        "dedicated.mode.enable.internal.rest", default=False, importance=HIGH,
        doc="Whether workers on other machines must reach this one. If not, it listens on the loopback address.",
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, object], written: Mapping[str, object] | None = None) -> None:
        """`written`: the properties with references to config providers, if `properties` has their values."""
        self._written = properties if written is None else written
        super().__init__(properties)

    @classmethod
    def load(cls, path: Path) -> "MirrorFile":
        """Load a file, with values from config providers. Raises ConfigError if it is unreadable or wrong."""
        written = read_properties(path)
        return cls(worker_properties(written), written)

    @cached_property
    def pairs(self) -> list[Flow]:
        """Return the flow between each ordered pair of clusters, enabled or not."""
        return [self._flow(source, target) for source, target in permutations(self.clusters, 2)]

    def flows(self) -> list[Flow]:
        """Return the flows to run: those that are enabled, and those that send heartbeats.

        Heartbeats are sent in the opposite direction of each enabled flow, unless the file disables them: the enabled
        flow
        mirrors them, which shows at its target that it is alive.
        """
        enabled = {(flow.source, flow.target) for flow in self.pairs if flow.choice.is_enabled}

        def is_to_run(flow: Flow) -> bool:
            is_against = flow.choice.emits_heartbeats and (flow.target, flow.source) in enabled
            return flow.choice.is_enabled or flow.asks_for_heartbeats or is_against

        return [flow for flow in self.pairs if is_to_run(flow)]

    def unknown_keys(self) -> list[tuple[str, str | None]]:
        """Return keys without a meaning, each with the most similar known key, if there is one."""
        found = []
        for full in self.originals:
            prefix = self._prefix_of(full)
            key = full.removeprefix(prefix)
            if not self._has_meaning(prefix, key):
                near = nearest(key, _known_below(prefix))
                found.append((full, None if near in (None, key) else f"{prefix}{near}"))
        return found

    def check_together(self) -> list[str]:
        return [*self._wrong_names(), *self._wrong_choices()] or self._nothing_to_run()

    def _flow(self, source: str, target: str) -> Flow:
        flow, written = self._flow_of(self._parts, source, target), self._written_parts
        return flow if written is None else replace(flow, written=self._flow_of(written, source, target))

    def _flow_of(self, parts: _Parts, source: str, target: str) -> Flow:
        own = parts.get(f"{source}{ARROW}{target}.", {})
        ends = _cluster(parts, source), _cluster(parts, target)
        return Flow(source, target, parts.get("", {}), own, *ends, self.has_internal_rest)

    @cached_property
    def _parts(self) -> _Parts:
        return self._by_prefix(self.originals)

    @cached_property
    def _written_parts(self) -> _Parts | None:
        """Return the same with references to config providers; None if the file has none."""
        return self._by_prefix(self._written) if has_references(self._written) else None

    def _by_prefix(self, properties: Mapping[str, object]) -> _Parts:
        parts: dict[str, dict[str, str]] = {}
        for key, value in properties.items():
            prefix = self._prefix_of(key)
            parts.setdefault(prefix, {})[key.removeprefix(prefix)] = str(value)
        return parts

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        """Return the key prefixes of clusters and flows, the longest first, as one may begin with another."""
        names = [*self.clusters, *(ARROW.join(pair) for pair in permutations(self.clusters, 2))]
        return tuple(sorted((f"{name}." for name in names), key=len, reverse=True))

    def _prefix_of(self, key: str) -> str:
        return next((prefix for prefix in self._prefixes if key.startswith(prefix)), "")

    def _has_meaning(self, prefix: str, key: str) -> bool:
        if ARROW in prefix:
            return key in FlowChoice.settings() or is_for_connectors(key) or is_for_workers(key)
        if prefix:
            return WorkerConfig.knows(key) or is_to_connect(key)
        return (
            key in MirrorFile.settings()
            or key in FlowChoice.settings()
            or is_to_connect(key)
            or is_for_connectors_alone(key)
            or is_for_workers_alone(key)
        )

    def _wrong_names(self) -> Iterator[str]:
        known = ",".join(self.clusters)
        key = self.key_of("clusters")
        for alias in dict.fromkeys(self.clusters):
            if self.clusters.count(alias) > 1:
                yield f"Invalid value {known} for configuration {key}: {alias} occurs twice"
        for full in self.originals:
            if ARROW in full and ARROW not in self._prefix_of(full):
                yield (
                    f"Unknown flow in configuration {full}: a flow needs two clusters of {key}={known}; add the "
                    "missing one there, or correct this key"
                )

    def _wrong_choices(self) -> Iterator[str]:
        for flow in self.pairs:
            try:
                _ = flow.choice
            except ConfigError as error:
                yield from (f"{flow.name}: {message}" for message in error.messages)

    def _nothing_to_run(self) -> list[str]:
        enabled = [flow for flow in self.pairs if flow.choice.is_enabled]
        if not enabled:
            example = self.pairs[0].name if self.pairs else f"A{ARROW}B"
            return [f"No flow is enabled: set {example}.{FlowChoice.key_of('is_enabled')}=true for each flow to run"]
        used = dict.fromkeys(alias for flow in enabled for alias in (flow.source, flow.target))
        return [
            f'Missing required configuration "{alias}.{_BOOTSTRAP}": set it to brokers of the cluster {alias}'
            for alias in used
            if not _cluster(self._parts, alias).get(_BOOTSTRAP, "").strip()
        ]


def _cluster(parts: _Parts, alias: str) -> dict[str, str]:
    """Return the settings of a cluster: those that apply to every cluster, then its own."""
    shared = {key: value for key, value in parts.get("", {}).items() if is_to_connect(key)}
    return {**shared, **parts.get(f"{alias}.", {})}


def _known_below(prefix: str) -> set[str]:
    known = set(WorkerConfig.settings())
    if not prefix or ARROW in prefix:
        known |= connector_keys() | FlowChoice.settings().keys()
    return known if prefix else known | MirrorFile.settings().keys()
