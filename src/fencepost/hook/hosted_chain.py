"""Hooks for transforms, predicates and converters whose code runs in another process, such as Java's.

They are not part of the contract for authors: `fencepost.api` does not export them, and they may change at any time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from fencepost.record import ConnectRecord, Schema
from fencepost.record.type_table import SchemaType

RAW = Schema(SchemaType.BYTES, is_optional=True, name="raw")
"""The schema of a key, a value or a header that is a converter's bytes: this object, and none that only equals it."""


class Role(StrEnum):
    """What a step of a chain does."""

    CHOOSE = "choose"
    """A predicate says whether the next transform applies to the record."""
    TRANSFORM = "transform"
    HEADER = "header"
    KEY = "key"
    VALUE = "value"

    @property
    def stage(self) -> str:
        """Return what Kafka Connect calls this part of the work on a record."""
        return "TRANSFORMATION" if self in (Role.CHOOSE, Role.TRANSFORM) else f"{self.upper()}_CONVERTER"


@dataclass(frozen=True)
class HostedStep:
    """A step that another process carries out. Its settings are those of the config that begin with `prefix`."""

    role: Role
    part: "type[HostedPart]"
    prefix: str
    is_negated: bool = False
    is_conditional: bool = False
    """Whether a transform applies only to records that were chosen."""


class Passed(NamedTuple):
    """What went through, in order. `rows` are the indexes of those among the records that were given."""

    rows: Sequence[int]
    records: Sequence[ConnectRecord]
    is_chosen: Sequence[bool]


class Refused(NamedTuple):
    """The first record that failed, and at which of the steps. Those before it are kept where they are."""

    row: int
    step: int
    error: Exception


class HostedChain(Protocol):
    """Steps in another process. Calls come from one thread; only `abandon` may come from any.

    Each record goes through all of the steps before the next record does, as in Kafka Connect, and through each step
    once: the process remembers what it has done until the last record is through.
    All calls raise HostLostError if the process ends.
    """

    def run(
        self, records: Sequence[ConnectRecord], first: int, end: int, is_chosen: Sequence[bool] | None = None
    ) -> Passed | Refused:
        """Send records through the steps from `first` up to before `end`.

        Raises RecordError if they have no form in which they can be sent; none has been sent then.

        Args:
            is_chosen: Which of them an earlier step has chosen; None: all.
        """

    def again(self) -> Passed | Refused:
        """Try the step again that has failed, and go on."""

    def skip(self) -> Passed | Refused:
        """Leave out the record that has failed, and go on."""

    def close(self) -> None: ...

    def abandon(self) -> None:
        """End the other process at once if it does not return from a call."""


@dataclass(frozen=True)
class ChainUse:
    """Who uses a chain, and for what."""

    task: str
    incarnation: str
    is_source: bool
    """Whether converters turn values into bytes, after the transforms, or bytes into values."""
    config: Mapping[str, str] = field(repr=False)


class HostedPart:
    """A class of transforms, predicates or converters whose instances have only their config."""

    @classmethod
    def open_chain(cls, steps: Sequence[HostedStep], use: ChainUse) -> HostedChain:
        """Begin a chain with the steps of this and other classes. Raises HostLostError, and what is wrong with them."""
        raise NotImplementedError

    def require_valid(self) -> None:
        """Raise ConfigError with what is wrong with the config."""
        raise NotImplementedError
