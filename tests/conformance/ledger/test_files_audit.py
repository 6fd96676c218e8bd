"""An audit of files finds what they lack of a topic, and raises no false alarm."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fencepost.api import OffsetRange
from fencepost.builtin.connector.files.moves import shown_name
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.files_audit import FileForm, FilesAudit, FilesReport, FilesScope
from fencepost.ledger.finding import Difference, DifferenceKind
from fencepost.record import TopicPartition
from support.log_writer import LogWriter


class FilesStage:
    """A topic, and the files of a sink that writes its values as lines."""

    def __init__(self, log_writer: LogWriter, bootstrap: str, topic: str, path: Path) -> None:
        self.log, self.topic, self.path = log_writer, log_writer.topic(topic), path
        self.bootstrap = bootstrap
        self.values: list[str] = []

    def send(self, count: int) -> None:
        """Write records in a transaction: its marker takes an offset, which no record has."""
        new = [f"line {len(self.values) + each:07d}" for each in range(count)]
        with self.log.transaction() as producer:
            for value in new:
                producer.produce(self.topic, value, partition=0)
        self.values += [*new, ""]

    def write(self, start: int, end: int, without: Sequence[int] = ()) -> Path:
        """Write the file of a range."""
        lines = [line for at, line in enumerate(self.values[start:end], start) if line and at not in without]
        path = self.path / shown_name(OffsetRange(self.topic, 0, start, end), None, ".json", "json")
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def audit(self, committed: int, partitions: Sequence[int] = (0,), **how: bool) -> FilesReport:
        places = [TopicPartition(self.topic, each) for each in partitions]
        conf = range_conf({"bootstrap.servers": self.bootstrap, "isolation.level": "read_committed"}, "an-audit").conf
        scope = FilesScope(self.path, FileForm("json", is_raw=True), dict.fromkeys(places, committed), **how)
        return FilesAudit(conf, "c", scope).run()


@pytest.fixture
def files(log_writer: LogWriter, kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> FilesStage:
    """Thirty records, in three transactions, and the files of two epochs."""
    stage = FilesStage(log_writer, kafka.bootstrap_servers, topic_name, tmp_path)
    for _ in range(3):
        stage.send(10)
    return stage


def only(report: FilesReport) -> Difference:
    (difference,) = report.differences
    return difference


def test_files_with_all_records_are_verified(files: FilesStage) -> None:
    files.write(0, 15)
    files.write(15, 33)
    (files.path / ".fencepost").mkdir()
    (files.path / ".fencepost" / "other+0+1.json").write_text("staged")
    report = files.audit(33)
    assert (report.differences, report.is_complete, report.files) == ([], True, 2)
    assert report.partitions[0].verified == 30


def test_missing_partition_is_named(files: FilesStage) -> None:
    """Its topic was created again, with fewer of them."""
    files.write(0, 33)
    report = files.audit(33, partitions=(0, 1))
    assert (report.differences, report.is_complete) == ([], False)
    assert report.notes == [f"{files.topic}-1 does not exist any more"]
    assert report.partitions[0].verified == 30


def test_a_lost_row_is_named(files: FilesStage) -> None:
    files.write(0, 15, without=[12])
    files.write(15, 33)
    difference = only(files.audit(33))
    assert (difference.kind, difference.first, difference.records) == (DifferenceKind.MISSING, 12, 1)


@pytest.mark.parametrize(("lost", "first", "records"), [(0, 0, 14), (1, 15, 16)])
def test_lost_file_is_found_by_its_missing_records(files: FilesStage, lost: int, first: int, records: int) -> None:
    paths = [files.write(0, 15), files.write(15, 33)]
    paths[lost].unlink()
    difference = only(files.audit(33))
    assert (difference.kind, difference.first, difference.records) == (DifferenceKind.MISSING, first, records)


def test_records_in_two_files_are_found(files: FilesStage) -> None:
    files.write(0, 15)
    files.write(12, 20)
    files.write(15, 33)
    difference = only(files.audit(33))
    assert (difference.kind, difference.first, difference.last) == (DifferenceKind.REPEATED, 12, 14)


def test_files_of_an_uncommitted_epoch_are_not_compared(files: FilesStage) -> None:
    files.write(0, 15)
    files.write(15, 33).write_text("half of")
    report = files.audit(15)
    assert (report.differences, report.is_complete) == ([], True)
    assert report.partitions[0].notes == ["1 files have later records than the sink has committed"]


def test_files_of_records_above_rewound_offsets_are_no_difference(files: FilesStage) -> None:
    """Offsets were set back, into the middle of a file."""
    files.write(0, 15)
    files.write(15, 33)
    report = files.audit(20)
    assert (report.differences, report.partitions[0].verified) == ([], 14)


def test_records_that_were_deleted_from_the_topic_are_no_difference(files: FilesStage) -> None:
    files.write(0, 15)
    files.write(15, 33)
    files.log.truncate(files.topic, 5)
    report = files.audit(33)
    assert report.differences == []
    assert report.partitions[0].verified == 16
    assert report.partitions[0].notes == ["1 files have records that are deleted from the topic"]


def test_older_records_are_no_difference_when_the_sink_began_at_the_latest(files: FilesStage) -> None:
    files.write(15, 33)
    assert files.audit(33).differences
    report = files.audit(33, from_start=False)
    assert (report.differences, report.partitions[0].verified) == ([], 16)


def test_topic_that_ends_before_the_committed_offset_is_noted(files: FilesStage) -> None:
    """It was created again, or its end is lost."""
    files.write(0, 15)
    report = files.audit(1_000)
    assert (report.differences, report.is_complete) == ([], False)
    assert report.partitions[0].notes == ["the topic ends at offset 33, before what the sink has committed"]
