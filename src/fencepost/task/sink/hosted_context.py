"""What a running task of a sink can use whose code runs in another process."""

from collections.abc import Collection, Mapping

from fencepost.api import SinkRecord
from fencepost.api.hosted_task import ForeignRecordError, GroupMember
from fencepost.config.raw import given_values
from fencepost.kafka.value.group_metadata import committer_of
from fencepost.record import TopicPartition
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.life.plugins import place_of
from fencepost.task.life.reader_status import Offsets
from fencepost.task.sink.context import SinkContext
from fencepost.task.sink.reporter import Reporter

_LAST_LETTERS_S = 2.0  # the last commit has to fit into the time for a stop, too


class HostedContext(SinkContext):
    """The `HostedSinkContext` of a task in a slot."""

    reporter: Reporter
    next_offsets: Offsets
    """The next offset for `put` of each partition of the assignment."""

    def __init__(self, spec: TaskSpec, control: Control, errors: ErrorCounters) -> None:
        """`reporter` and `next_offsets` have to be set before the task is started."""
        super().__init__(given_values(spec.task_config), control, spec.generation)
        self.place = place_of(spec)
        self.most_records = spec.input.most_records
        self.last_letters_s = min(spec.commits.offset_flush_timeout_ms / 1000, _LAST_LETTERS_S)
        self._errors = errors

    @property
    def identity(self) -> GroupMember | None:
        if self.reading is None or self.reading.generation is None:
            return None
        member = committer_of(self.reading.metadata)
        return GroupMember(member.group_id, member.generation, member.member_id)

    def committed(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {} if self.reading is None else self.reading.stored(places)

    def positions(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: self.next_offsets[place] for place in places if place in self.next_offsets}

    def read_ahead(self, most: int) -> None:
        if self.reading is not None:
            self.reading.read_ahead(most)

    def edges(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        return {} if self.reading is None else self.reading.edges(places)

    def left_out(self, record: SinkRecord, stage: str, error: ForeignRecordError) -> None:
        self.reporter.left_out(record, stage, error)

    def count_retries(self, count: int) -> None:
        self._errors.retries += count
