"""The port of the host for chains of Python connectors; the rules of `port` hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from fencepost.api.hosted_chain import Passed, Refused
from fencepost.builtin.java.port import JavaClass
from fencepost.record import ConnectRecord


class ChainStep(NamedTuple):
    """A transform, predicate or converter. Its settings are those of the config that begin with `prefix`."""

    role: str
    """`choose`, `transform`, `header`, `key` or `value`."""
    java_class: JavaClass
    prefix: str
    is_negated: bool = False
    """Whether `choose` chooses the records that the predicate does not match."""
    is_conditional: bool = False
    """Whether a transform applies only to chosen records."""


@dataclass(frozen=True)
class ChainStart:
    """All that the Java steps of a chain need."""

    owner: str
    """The task, in logs."""
    is_source: bool
    """Whether converters make bytes of values, or values of bytes."""
    config: Mapping[str, str] = field(repr=False)
    steps: Sequence[ChainStep]


class HostedSteps(Protocol):
    """The steps of a chain in a host. `fencepost.api.hosted_chain.HostedChain` says what the calls do.

    An error of `Refused` is a JavaError or a JavaRetriableError.
    """

    def run(
        self, records: Sequence[ConnectRecord], first: int, end: int, is_chosen: Sequence[bool] | None
    ) -> Passed | Refused: ...

    def again(self) -> Passed | Refused: ...

    def skip(self) -> Passed | Refused: ...

    def close(self) -> None:
        """End the connection, after which the host closes the plug-ins."""
