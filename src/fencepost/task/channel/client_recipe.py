"""The settings of a task's Kafka client, before the references in its connector's config are looked up.

Settings can be translated only with their values, so the process that looks values up translates, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.config.client import combined
from fencepost.kafka.setting.client_settings import (
    admin_conf,
    producer_conf,
    range_conf,
    reader_conf,
    sink_conf,
    transactional_conf,
)
from fencepost.kafka.setting.translation import Translated
from fencepost.task.channel.codec import Message

LookUp = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns a config with its references replaced. Raises ConfigError or RetriableError."""

_GROUP = "group.id"
_ID = "transactional.id"


@dataclass(frozen=True)
class ClientRecipe(Message):
    """Java's properties of one client, and what librdkafka's are made of.

    Attributes:
        kind: the kind of client, a key of `_MAKERS`.
        worker: the properties that the worker's file gives it.
        own: those of the connector, which replace the worker's; they may have references. If they name other brokers,
            nothing that identifies the worker goes there.
        names: the group that it has by default, and its client id, if its kind has them.
        fixed: settings of librdkafka that nobody can change.
        place: the part of a task's spec that has the result.
    """

    kind: str
    worker: Mapping[str, Any] = field(repr=False)
    own: Mapping[str, str] = field(repr=False)
    names: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""

    def translated(self, look_up: LookUp) -> Translated:
        """Return librdkafka's settings. Raises ConfigError, and what `look_up` raises."""
        own = look_up(self.own)
        made = _MAKERS[self.kind](combined(self.worker, own), _names(self.names, own))
        return Translated({**made.conf, **self.fixed}, made.warnings)


def _names(names: tuple[str, ...], own: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a client whose connector may name another group."""
    return (own.get(_GROUP, "").strip() or names[0], *names[1:]) if names else ()


def without_id(properties: Mapping[str, Any]) -> Translated:
    """Return the settings of a transactional producer without its id."""
    found = transactional_conf(properties, "")
    return Translated({key: value for key, value in found.conf.items() if key != _ID}, found.warnings)


_MAKERS: Mapping[str, Callable[[Mapping[str, Any], tuple[str, ...]], Translated]] = {
    "producer": lambda properties, _: producer_conf(properties),
    "transactional": lambda properties, _: without_id(properties),
    "admin": lambda properties, _: admin_conf(properties),
    "reader": lambda properties, _: reader_conf(properties),
    "sink": lambda properties, names: sink_conf(properties, names[0], names[1]),
    "range": lambda properties, names: range_conf(properties, names[0]),
}
