"""Hooks for tasks whose code runs in another process, such as Java's. They are not part of the contract for authors.

`fencepost.api` does not export them, and they may change at any time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from fencepost.api.errors import ConnectError
from fencepost.api.sink import SinkTask, SinkTaskContext
from fencepost.api.source import Form, SourceTask, SourceTaskContext
from fencepost.config import Setting
from fencepost.record import SinkRecord

TASK_CLASS = "task.class"
"""The key of a task's config with the name of the task's class, as Kafka Connect stores it."""


@dataclass(frozen=True)
class TaskPlace:
    """Which task it is, and the effective config of its connector: with the worker's converters, if it names none."""

    connector: str
    task: int
    incarnation: str
    connector_config: Mapping[str, str] = field(repr=False)


@runtime_checkable
class NamesTaskClass(Protocol):
    """A connector whose tasks have a class of another language."""

    @property
    def task_class_name(self) -> str: ...


@runtime_checkable
class KnowsSettings(Protocol):
    """A class whose settings have to be asked for, which takes a second or more the first time."""

    def known_settings(self, *, asks: bool = True) -> Mapping[str, Setting] | None:
        """Return the settings if they are known; if not, None, and they are asked for in the background if `asks`."""


class HostedTaskContext(SourceTaskContext, Protocol):
    """What the runtime offers a hosted task."""

    @property
    def place(self) -> TaskPlace: ...

    def count_errors(self, *, failures: int, retries: int) -> None:
        """Count records that the other process could not convert and dropped, and what it tried again."""


class HostLostError(ConnectError):
    """The process that ran a task's code is gone; whatever the task had polled and not committed is polled again.

    This is no failure of the task: it starts again, as after the loss of its slot.
    """

    def __init__(self, text: str, companions: frozenset[str] = frozenset(), *, is_crash: bool = True) -> None:
        """Say how the process has ended.

        Args:
            text: How, in a sentence.
            companions: The incarnations of all tasks that it ran.
            is_crash: Whether one of these may have ended it; False if it was ended on purpose.
        """
        super().__init__(text)
        self.companions = companions
        self.is_crash = is_crash


class HostedTask(SourceTask):
    """A task whose `poll` returns what another process has transformed and converted already, as columns of bytes.

    The transforms, predicates and converters of its config are not applied here. Its batches have no offsets of single
    records, only `Batch.ends`, so a batch is committed as a whole or not at all.
    """

    context: HostedTaskContext

    polls_ahead: ClassVar[bool | None] = False

    @classmethod
    def form(cls, config: Any) -> Form:
        return Form.COLUMNS

    def abandon(self) -> None:
        """End the other process at once: the task has not stopped in time. Called by any thread."""


class GroupMember(NamedTuple):
    """The membership under which a sink task owns its partitions, for tasks that commit for their group."""

    group: str
    generation: int
    member: str


class ForeignRecordError(ConnectError):
    """What code in another process has thrown for one record. `of` makes one that has the name of its class."""

    operation: str = ""
    """The name of the class whose code failed."""

    @classmethod
    def of(cls, class_name: str, message: str | None, operation: str) -> "ForeignRecordError":
        package, _, name = class_name.rpartition(".")
        named = type(name, (cls,), {"__module__": package, "__qualname__": name})
        made: ForeignRecordError = named(message or class_name)
        made.operation = operation
        return made


class HostedSinkContext(SinkTaskContext, Protocol):
    """What the runtime offers a hosted sink task."""

    @property
    def place(self) -> TaskPlace: ...

    @property
    def identity(self) -> GroupMember | None:
        """Return the membership as of the last assignment; None before the first."""

    def left_out(self, record: SinkRecord, stage: str, error: ForeignRecordError) -> None:
        """Count, log and report a record, of bytes, that the other process could not convert and has dropped.

        No offset beyond the record is committed before its dead letter is durable. Raises what the report raises.
        """

    def count_retries(self, count: int) -> None:
        """Count operations on records that the other process tried again."""


class HostedSink(SinkTask):
    """A task that gets records as bytes, which another process converts and transforms.

    The transforms, predicates and converters of its config are not applied here.
    """

    context: HostedSinkContext

    def abandon(self) -> None:
        """End the other process at once: the task has not stopped in time. Called by any thread."""


def converts_itself(task: object) -> bool:
    """Say whether a class of tasks has its records converted and transformed in another process."""
    return isinstance(task, type) and issubclass(task, HostedTask | HostedSink)
