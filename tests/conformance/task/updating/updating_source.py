"""A source whose task does what a test tells it to, in the process of the test: see `Script`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fencepost.api import ExactlyOnceSupport, RecordMetadata, SourceConnector, SourceRecord, SourceTask, setting

Update = Callable[[Mapping[Any, Any]], Any]


@dataclass
class Script:
    """What a task does, and what it was told. `polls`: each is called by a poll; after the last one nothing comes."""

    polls: list[Callable[[SourceTask], list[SourceRecord] | None]] = field(default_factory=list)
    update: Update = lambda offsets: None
    on_start: Callable[[], object] = lambda: None
    done: list[str] = field(default_factory=list)
    given: list[dict[Any, Any]] = field(default_factory=list)
    offsets_at_start: list[Any] = field(default_factory=list)

    def poll(self, task: SourceTask) -> list[SourceRecord] | None:
        """Do the next step. With none left, wait a little: every poll is a chance to update offsets."""
        if not self.polls:
            self.done.append("poll nothing")
            task.context.wait(0.02)
            return None
        records = self.polls.pop(0)(task)
        self.done.append(f"poll {len(records or ())}")
        return records

    def updated(self, offsets: Mapping[Any, Any]) -> Any:
        self.done.append("update")
        self.given.append({key: None if offset is None else dict(offset) for key, offset in offsets.items()})
        return self.update(offsets)


class PlainTask(SourceTask):
    """Overrides nothing that it need not."""

    config: "PlainConnector"

    def start(self) -> None:
        self.script = PlainConnector.scripts[self.config.topic]
        self.script.offsets_at_start = self.context.offsets()
        self.script.on_start()

    def poll(self) -> list[SourceRecord] | None:
        return self.script.poll(self)


class UpdatingTask(PlainTask):
    """Records the calls for updates, records and commits."""

    def update_offsets(self, offsets: Mapping[Any, Any]) -> Any:
        return self.script.updated(offsets)

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.script.done.append(f"record {record.value}{'' if metadata else ' not sent'}")

    def commit(self) -> None:
        self.script.done.append("commit")


class PlainConnector(SourceConnector):
    """Runs the script that a test has left under the name of the topic."""

    task: ClassVar[type[SourceTask]] = PlainTask
    scripts: ClassVar[dict[str, Script]] = {}

    topic: str = setting("topic", doc="Where records go, and the script's name.")

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self) -> bool:
        return True


class UpdatingConnector(PlainConnector):
    """The same, with tasks that update offsets."""

    task = UpdatingTask
