"""Hooks for tasks whose code runs in another process, such as Java's. They are not part of the contract for authors.

`fencepost.api` does not export them, and they may change at any time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from fencepost.api.errors import ConnectError
from fencepost.api.source import Form, SourceTask, SourceTaskContext
from fencepost.config import Setting


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
