"""An audit of copies finds what they lack of a topic, and raises no false alarm."""

from collections.abc import Sequence

import pytest

from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.finding import Difference, DifferenceKind
from fencepost.ledger.mirror_audit import MirrorAudit, MirroredPartition, MirrorReport, MirrorScope
from fencepost.record import TopicPartition
from support.log_writer import LogWriter

VALUES = [f"line {number:04d}" for number in range(300)]


class MirrorStage:
    """A topic, and its copy in the same cluster, as a mirror would write it: in other transactions."""

    def __init__(self, log_writer: LogWriter, topic: str) -> None:
        self.log = log_writer
        self.topic, self.copy = log_writer.topic(topic), log_writer.topic(f"copy-of-{topic}")
        for start in range(0, 300, 100):
            self._write(self.topic, VALUES[start : start + 100])
            with log_writer.transaction(is_committed=False) as producer:
                producer.produce(self.topic, "aborted", partition=0)

    def _write(self, topic: str, values: Sequence[str]) -> None:
        with self.log.transaction() as producer:
            for value in values:
                producer.produce(topic, value, key=value[-1], headers=[("h", value)], partition=0)

    def mirror(self, values: Sequence[str]) -> None:
        for start in range(0, len(values), 70):
            self._write(self.copy, values[start : start + 70])

    def audit(self, **how: bool) -> MirrorReport:
        conf = range_conf({"bootstrap.servers": self.log.bootstrap, "isolation.level": "read_committed"}, "r").conf
        place, copy = TopicPartition(self.topic, 0), TopicPartition(self.copy, 0)
        end = self.log.admin.offsets.ends([place], read_committed=True)[place]
        return MirrorAudit("c", MirrorScope(conf, conf, [MirroredPartition(place, copy, end)], **how)).run()

    def only(self, **how: bool) -> Difference:
        (difference,) = self.audit(**how).differences
        return difference


@pytest.fixture
def stage(log_writer: LogWriter, topic_name: str) -> MirrorStage:
    stage = MirrorStage(log_writer, topic_name)
    log_writer.settle([stage.topic])
    return stage


def test_exact_copy_is_verified(stage: MirrorStage) -> None:
    stage.mirror(VALUES)
    report = stage.audit()
    assert (report.differences, report.is_complete, report.notes) == ([], True, [])
    assert (report.partitions[0].verified, report.partitions[0].others, report.partitions[0].notes) == (300, 0, [])


@pytest.mark.parametrize("lost", [0, 150, 299])
def test_lost_record_is_named_by_its_offset_at_the_source(stage: MirrorStage, lost: int) -> None:
    stage.mirror([*VALUES[:lost], *VALUES[lost + 1 :]])
    difference = stage.only()
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, 1)
    assert difference.first == lost + 3 * (lost // 100)  # two markers and an aborted record after each transaction


def test_records_of_other_producers_and_later_records_are_no_difference(stage: MirrorStage) -> None:
    stage.mirror(VALUES[:200])
    stage.log.send(stage.copy, ["another's"])
    stage.mirror([*VALUES[200:], "later"])
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], True)
    assert (report.partitions[0].verified, report.partitions[0].others) == (300, 1)


def test_a_record_that_was_copied_twice_is_found(stage: MirrorStage) -> None:
    stage.mirror([*VALUES[:100], *VALUES[99:]])
    difference = stage.only()
    assert (difference.kind, difference.place.topic) == (DifferenceKind.REPEATED, stage.copy)


def test_records_deleted_at_the_source_or_the_copy_are_no_difference(stage: MirrorStage) -> None:
    stage.mirror(VALUES)
    stage.log.truncate(stage.topic, 40)
    report = stage.audit()
    assert (report.differences, report.is_complete, report.partitions[0].verified) == ([], True, 260)
    assert report.partitions[0].notes == ["40 records of the copy are deleted from the source"]
    stage.log.truncate(stage.copy, 60)
    report = stage.audit()
    assert (report.differences, report.is_complete, report.partitions[0].verified) == ([], True, 240)
    stage.log.truncate(stage.topic, 90)
    report = stage.audit()
    assert (report.differences, report.is_complete, report.partitions[0].verified) == ([], True, 210)


def test_loss_is_found_when_source_and_copy_have_deleted_their_first_records(stage: MirrorStage) -> None:
    stage.mirror([*VALUES[:200], *VALUES[201:]])
    stage.log.truncate(stage.topic, 40)
    stage.log.truncate(stage.copy, 60)
    difference = stage.only()
    assert (difference.kind, difference.first, difference.records) == (DifferenceKind.MISSING, 206, 1)


def test_older_records_are_no_difference_when_the_mirror_began_at_the_latest(stage: MirrorStage) -> None:
    stage.mirror(VALUES[150:])
    assert stage.audit().differences
    report = stage.audit(from_start=False)
    assert (report.differences, report.partitions[0].verified) == ([], 150)


def test_copy_of_another_topic_is_not_reported_as_complete(stage: MirrorStage) -> None:
    stage.mirror(["other"] * 10)
    assert stage.audit().differences
    report = stage.audit(from_start=False)
    assert not report.is_complete
