"""A MirrorMaker 2 file: the clusters and flows that it names, and what goes for each.

Keys stand alone, below a cluster (`west.`), or below a flow (`west->east.`). Of what goes for the same thing, the
later ones win:

- a worker: what every worker has, worker settings alone, those of the target cluster, storage topics, converters and
  `task` alone (as in Kafka's MirrorMaker), those of the flow;
- a connector: its settings alone, how both clusters are reached and what their clients are told, those of the flow.

What says how to connect (`security.protocol`, `ssl.`, `sasl.`) goes for every cluster where it stands alone.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import permutations
from pathlib import Path

from fencepost.api import HIGH, Config, ConfigError, non_empty, setting
from fencepost.config.properties import read_properties
from fencepost.config.provider import resolved
from fencepost.config.worker import WorkerConfig, nearest
from fencepost.mirror.clients import is_to_connect
from fencepost.mirror.flow import (
    ARROW,
    Flow,
    FlowChoice,
    connector_keys,
    is_for_connectors,
    is_for_connectors_alone,
    is_for_workers,
    is_for_workers_alone,
)

_BOOTSTRAP = WorkerConfig.key_of("bootstrap_servers")


class MirrorFile(Config):
    """A file as MirrorMaker 2 takes it. Making one raises ConfigError with everything that is wrong."""

    clusters: list[str] = setting("clusters", check=non_empty(), importance=HIGH, doc="What the clusters are called.")
    has_internal_rest: bool = setting(
        "dedicated.mode.enable.internal.rest", default=False, importance=HIGH,
        doc="Whether workers on other machines have to reach this one. Without, it listens at the loopback address.",
    )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> "MirrorFile":
        """Return a file with what its config providers look up. Raises ConfigError: it cannot be read, or is wrong."""
        return cls(resolved(read_properties(path)))

    @cached_property
    def pairs(self) -> list[Flow]:
        """Return the flow between each pair of clusters, enabled or not."""
        return [self._flow(source, target) for source, target in permutations(self.clusters, 2)]

    def flows(self) -> list[Flow]:
        """Return what is to run: flows that are enabled, and those that send heartbeats.

        These are sent against each flow that is enabled, unless the file says otherwise: it mirrors them, and they tell
        at its target that it is alive.
        """
        enabled = {(flow.source, flow.target) for flow in self.pairs if flow.choice.is_enabled}

        def is_to_run(flow: Flow) -> bool:
            is_against = flow.choice.emits_heartbeats and (flow.target, flow.source) in enabled
            return flow.choice.is_enabled or flow.asks_for_heartbeats or is_against

        return [flow for flow in self.pairs if is_to_run(flow)]

    def unknown_keys(self) -> list[tuple[str, str | None]]:
        """Return keys that mean nothing, each with the known key that is nearest, if one is near."""
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
        ends = self._cluster(source), self._cluster(target)
        return Flow(source, target, self._alone, self._below(f"{source}{ARROW}{target}"), *ends, self.has_internal_rest)

    def _cluster(self, alias: str) -> dict[str, str]:
        return {**{k: v for k, v in self._alone.items() if is_to_connect(k)}, **self._below(alias)}

    def _below(self, name: str) -> dict[str, str]:
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): str(value)
            for key, value in self.originals.items()
            if self._prefix_of(key) == prefix
        }

    @cached_property
    def _alone(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.originals.items() if not self._prefix_of(key)}

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        """Return what keys of clusters and flows begin with, the longest first: one may begin as another does."""
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
                yield f"Invalid value {known} for configuration {key}: {alias} is in it twice"
        for full in self.originals:
            if ARROW in full and ARROW not in self._prefix_of(full):
                yield (
                    f"Unknown flow in configuration {full}: a flow goes from one to another of {key}={known}; name the "
                    "cluster there, or correct this key"
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
            return [f"No flow is enabled: set {example}.{FlowChoice.key_of('is_enabled')}=true for each that is wanted"]
        used = dict.fromkeys(alias for flow in enabled for alias in (flow.source, flow.target))
        return [
            f'Missing required configuration "{alias}.{_BOOTSTRAP}": name some brokers of the cluster {alias}'
            for alias in used
            if not self._cluster(alias).get(_BOOTSTRAP, "").strip()
        ]


def _known_below(prefix: str) -> set[str]:
    known = set(WorkerConfig.settings())
    if not prefix or ARROW in prefix:
        known |= connector_keys() | FlowChoice.settings().keys()
    return known if prefix else known | MirrorFile.settings().keys()
