"""The transforms of a connector, in order, each with its predicate."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from fencepost.api import Config, ConfigError, ConnectRecord, Predicate, Record, Transform
from fencepost.config.connector import PLUGIN_VERSION, ConnectorConfig
from fencepost.config.reference import names_in
from fencepost.config.setting import embedded, validate_settings
from fencepost.hook.batch_method import covers
from fencepost.hook.hosted_chain import HostedPart
from fencepost.record import RecordColumns

log = logging.getLogger(__name__)
T = TypeVar("T")


class Find(Protocol):
    """Returns a plug-in's class by kind (`transform` or `predicate`), name and version; raises ConfigError if there is
    none."""

    def __call__(self, kind: str, name: str, version: str | None = None, /) -> type[Any]: ...


class RunStep(Protocol):
    """Runs what one link does with a record: several times if it has to be tried again."""

    def __call__(self, step: Callable[[], T], /) -> T: ...


Plugin = TypeVar("Plugin", bound=Config)

_TEST, _MATCHES = frozenset({"test"}), frozenset({"matches"})
_APPLY, _APPLY_BATCH = frozenset({"apply"}), frozenset({"apply_batch", "apply_topics"})
_OWN_KEYS = frozenset({"type", "predicate", "negate", PLUGIN_VERSION})


def _once(step: Callable[[], T], /) -> T:
    return step()


@dataclass(frozen=True)
class Link:
    """A transform, and the records that it applies to."""

    alias: str
    transform: Transform
    predicate: Predicate | None = None
    is_negated: bool = False

    def applies_to(self, record: ConnectRecord) -> bool:
        return self.predicate is None or bool(self.predicate.test(record)) is not self.is_negated

    def apply(self, record: Record) -> Record | None:
        """Return the record, transformed if the predicate chooses it; None if it is filtered."""
        return self.transform.apply(record) if self.applies_to(record) else record

    @property
    def takes_batches(self) -> bool:
        """Say whether the classes of transform and predicate work on batches; a batch may still be refused."""
        if self.predicate is not None and not covers(type(self.predicate), (Predicate,), _TEST, _MATCHES):
            return False
        return covers(type(self.transform), (Transform,), _APPLY, _APPLY_BATCH)

    def apply_batch(self, batch: RecordColumns) -> list[RecordColumns] | None:
        """Return the batch with the transform applied to the records that the predicate chooses; None if it is refused.

        The chosen records and the others are two batches, because their schemas may differ from now on.
        """
        if self.predicate is None:
            return _present(self._transformed(batch))
        found = self.predicate.matches(batch)
        if found is None:
            return None
        is_chosen = [bool(each) is not self.is_negated for each in found]
        if len(is_chosen) != len(batch):
            raise ValueError(f"matches() returned {len(is_chosen)} results for {len(batch)} records")
        if all(is_chosen):
            return _present(self._transformed(batch))
        if not any(is_chosen):
            return [batch]
        chosen = self._transformed(batch.select([index for index, each in enumerate(is_chosen) if each]))
        if chosen is None:
            return None
        others = batch.select([index for index, each in enumerate(is_chosen) if not each])
        return [chosen, others] if len(chosen) else [others]

    def _transformed(self, batch: RecordColumns) -> RecordColumns | None:
        changed = self.transform.apply_batch(batch)
        if changed is None or changed.rows is batch.rows:
            return changed
        if list(changed.rows) != sorted({*changed.rows}.intersection(batch.rows)):
            raise ValueError("apply_batch() returned records in another order, or other records, than it was given")
        return changed


class Chain:
    """The links that records pass in order. One instance for each task, for one thread."""

    def __init__(self, links: Sequence[Link] = ()) -> None:
        self.links = tuple(links)
        self.takes_batches = all(link.takes_batches for link in self.links)

    @classmethod
    def from_config(cls, properties: Mapping[str, object], find: Find) -> "Chain":
        """Build the chain from `transforms` and `predicates`. Raises ConfigError with all faults and their keys."""
        return _Building(properties, find).chain()

    def apply(self, record: Record, run_step: RunStep = _once) -> Record | None:
        """Return the transformed record; None if a transform filtered it. Raises the errors of the transforms.

        `run_step` runs each link, and may run it several times.
        """
        for link in self.links:
            changed = run_step(partial(link.apply, record))
            if changed is None:
                return None
            record = changed
        return record

    def apply_batch(self, batch: RecordColumns) -> list[RecordColumns] | None:
        """Return the transformed records of a batch, or None if it must be transformed record by record.

        They are the records, with the contents, that `apply` returns. Where predicates tell records apart there are
        several batches; `rows` says how the records follow each other. Any error also means record by record: `apply`
        finds out which record causes it.
        """
        if not self.takes_batches:
            return None
        batches = [batch]
        for link in self.links:
            changed = [link.apply_batch(each) if len(each) or not len(batch) else [each] for each in batches]
            if any(each is None for each in changed):
                return None
            batches = [part for parts in changed if parts is not None for part in parts]
        return batches

    def close(self) -> None:
        """Close all transforms. Errors are logged."""
        for link in self.links:
            try:
                link.transform.close()
            except Exception:
                log.exception("transforms.%s: an error in close() is ignored", link.alias)


def _present(batch: RecordColumns | None) -> list[RecordColumns] | None:
    return None if batch is None else [batch]


class _Building:
    """Builds a chain and collects all faults."""

    def __init__(self, properties: Mapping[str, object], find: Find) -> None:
        self._properties = properties
        self._find = find
        self._faults: list[str] = []

    def chain(self) -> Chain:
        links = [self._link(alias) for alias in self._aliases("transforms")]
        if self._faults:
            raise ConfigError(self._faults)
        return Chain([link for link in links if link is not None])

    def _link(self, alias: str) -> Link | None:
        prefix = f"{ConnectorConfig.key_of('transforms')}.{alias}."
        transform: Transform | None = self._built("transform", prefix)
        predicate: Predicate | None = None
        wanted = self._text(f"{prefix}predicate")
        if wanted is not None:
            predicate = self._predicate(wanted, f"{prefix}predicate")
        is_negated = self._is_negated(prefix, has_predicate=wanted is not None)
        return None if transform is None else Link(alias, transform, predicate, is_negated)

    def _predicate(self, alias: str, key: str) -> Predicate | None:
        if alias not in self._aliases("predicates"):
            self._fault(key, alias, f"there is no such alias in '{ConnectorConfig.key_of('predicates')}'")
            return None
        predicate: Predicate | None = self._built("predicate", f"{ConnectorConfig.key_of('predicates')}.{alias}.")
        return predicate

    def _is_negated(self, prefix: str, *, has_predicate: bool) -> bool:
        text = self._text(f"{prefix}negate")
        if text is None:
            return False
        if not has_predicate:
            self._faults.append(
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' "
                "defining a predicate to be negated."
            )
        if text.lower() not in ("true", "false"):
            self._fault(f"{prefix}negate", text, "Expected value to be either true or false")
        return text.lower() == "true"

    def _built(self, kind: str, prefix: str) -> Any:
        """Return the plug-in below `prefix`; None if it has faults, which are recorded. A hosted one checks itself."""
        name = self._text(f"{prefix}type")
        if name is None:
            self._faults.append(f'Missing required configuration "{prefix}type" which has no default value.')
            return None
        try:
            plugin = self._find(kind, name, self._text(prefix + PLUGIN_VERSION))
        except ConfigError as error:
            self._fault(f"{prefix}type", name, str(error))
            return None
        return self._constructed(plugin, prefix)

    def _constructed(self, plugin: type[Plugin], prefix: str) -> Plugin | None:
        own = {} if issubclass(plugin, HostedPart) else plugin.settings()
        settings = embedded(own.values(), prefix, prefix)
        faults = [fault for answer in validate_settings(settings, self._properties) for fault in answer.errors]
        self._faults += faults
        if faults:
            return None
        below = {key.removeprefix(prefix): value for key, value in self._properties.items() if key.startswith(prefix)}
        try:
            return plugin({key: value for key, value in below.items() if key not in _OWN_KEYS})
        except ConfigError as error:
            self._faults += [f"{prefix.removesuffix('.')}: {message}" for message in error.messages]
            return None

    def _aliases(self, attribute: str) -> list[str]:
        [answer] = validate_settings([getattr(ConnectorConfig, attribute)], self._properties)
        self._faults += [fault for fault in answer.errors if fault not in self._faults]
        return [] if answer.errors else names_in(answer.value)

    def _text(self, key: str) -> str | None:
        value = self._properties.get(key)
        return None if value is None else str(value).strip()

    def _fault(self, key: str, value: str, reason: str) -> None:
        self._faults.append(f"Invalid value {value} for configuration {key}: {reason}")
