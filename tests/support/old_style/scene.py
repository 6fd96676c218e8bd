"""An input of numbered records, the programs that copy it, and the verdict on the copy."""

from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Verdict, judge
from support.log_writer import LogWriter
from support.old_style.running import OldProgram

_COPIED_S = 60


class CopyScene:
    """A group that copies a topic to one of one partition, so that the order shows which member copies."""

    def __init__(self, writer: LogWriter, group: str, topics: tuple[str, str], partitions: int) -> None:
        """The topics are there, the input with as many partitions."""
        self.group, self.topics = group, topics
        self.bootstrap = writer.bootstrap
        self.partitions = range(partitions)
        self._writer = writer
        self._written = 0

    @classmethod
    def create(cls, writer: LogWriter, name: str, partitions: int) -> "CopyScene":
        """Make the topics of one."""
        return cls(writer, name, (writer.topic(f"{name}-in", partitions), writer.topic(f"{name}-out")), partitions)

    def write(self, count: int, *, hold: bool = False) -> None:
        """Write as many records to each partition; on `hold`, one of them has programs of the old style wait."""
        numbers = range(self._written, self._written + count)
        marked = numbers[count // 2]
        for partition in self.partitions:
            values = [f"{partition}:{n}{':hold' if hold and n == marked else ''}" for n in numbers]
            self._writer.send(self.topics[0], values, partition)
        self._written = numbers.stop

    @contextmanager
    def watched(self) -> Iterator[CommittedReader]:
        with CommittedReader(self.bootstrap, [self.topics[1]]) as reader:
            yield reader

    def is_copied(self, reader: CommittedReader) -> bool:
        return len(reader.seen()) >= self._written * len(self.partitions)

    def await_copied(self, reader: CommittedReader) -> None:
        eventually(lambda: self.is_copied(reader), within_s=_COPIED_S)

    def hold(self, program: OldProgram, reader: CommittedReader) -> None:
        """Have a program copy a part, and wait in a transaction of each partition, at each of the points."""
        self.write(10)
        self.await_copied(reader)
        self.write(5, hold=True)
        self.await_held(program)

    def await_held(self, program: OldProgram) -> None:
        """Wait until a program waits in a transaction of each partition."""
        program.await_said(*(f"at {program.point(each)} {each}" for each in self.partitions))

    def verdict(self, reader: CommittedReader) -> Verdict:
        """Return what is wrong with all that a reader of committed records sees, open transactions waited for."""
        expected = {partition: range(self._written) for partition in self.partitions}
        return judge(expected, reader.read_all(), sighting=_sighting)


def _sighting(observation: Observation) -> tuple[int, int]:
    partition, number, *_ = (observation.value or b"").split(b":")
    return int(partition), int(number)
