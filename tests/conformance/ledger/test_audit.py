"""An audit finds what a log lacks, and raises no false alarm."""

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.run_digest import BLOCK
from fencepost.kafka.produce.batch_records import BatchQueue
from fencepost.ledger.carried import carried_key
from fencepost.ledger.finding import DifferenceKind
from fencepost.task.delivery.ledger import CarryLimits
from fencepost.testing import eventually
from support.ledger_stage import DIRECT, lose, lose_all_of, plant, repeat, replace


def lines(count: int, start: int = 0) -> list[bytes]:
    return [b"line %07d" % number for number in range(start, start + count)]


def test_transactions_are_verified_when_the_log_has_all_sent_records(stage):
    stage.write(lines(1_000))
    stage.write(lines(1_000, 1_000), 1)
    stage.write([b"one", None, b"", b"four"])
    report = stage.audit()
    assert report.differences == []
    assert report.is_complete
    assert report.entries == 3
    assert [found.verified for found in report.partitions] == [1_004, 1_000]


def test_keys_and_headers_are_verified(stage):
    keys = [b"a", None, b"", *lines(200)]
    stage.write(lines(203), keys=keys, headers=[(("h", b"1"), ("h", None))] * 203)
    report = stage.audit()
    assert report.differences == []
    assert [found.verified for found in report.partitions] == [203]


@pytest.mark.parametrize("lost", [0, 63, 64, 40_321, 99_999])
def test_one_record_lost_in_a_hundred_thousand_is_found(stage, monkeypatch, lost):
    plant(monkeypatch, lose(b"line %07d" % lost))
    stage.opened()
    for start in range(0, 100_000, 20_000):
        stage.write(lines(20_000, start))
    report = stage.audit()
    (difference,) = report.differences
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, 1)
    transaction = lost // 20_000  # each has a record of its own in the log, its marker
    offset = lost + transaction
    assert difference.first <= offset
    assert offset - difference.first < BLOCK
    assert difference.entry is not None
    assert difference.entry.number == transaction
    assert report.partitions[0].verified == 80_000


def test_a_record_that_was_written_twice_is_found(stage, monkeypatch):
    plant(monkeypatch, repeat(b"line 0000500"))
    stage.opened()
    stage.write(lines(1_000))
    difference = stage.audit().differences[0]
    assert 500 - BLOCK < difference.first <= 500


def test_a_value_that_was_changed_is_found(stage, monkeypatch):
    plant(monkeypatch, replace({b"line 0000500": b"line 0000501"}))
    stage.opened()
    stage.write(lines(1_000))
    (difference,) = stage.audit().differences
    assert difference.kind is DifferenceKind.ALTERED
    assert difference.first <= 500 <= difference.last < difference.first + BLOCK


def test_two_records_that_changed_places_between_partitions_are_found(stage, monkeypatch):
    plant(monkeypatch, replace({b"line 0000010": b"line 0000310", b"line 0000310": b"line 0000010"}))
    stage.opened()
    stage.send(lines(200))
    stage.send(lines(200, 300), 1)
    stage.commit()
    found = [(each.kind, each.place.partition) for each in stage.audit().differences]
    assert found == [(DifferenceKind.ALTERED, 0), (DifferenceKind.ALTERED, 1)]


def test_a_transaction_with_several_entries_is_verified(stage):
    stage.delivery.ledger._most_bytes = stage.delivery.ledger._carry._most_bytes = 1  # an entry for each run
    for start in range(0, 40, 20):
        stage.send(lines(10, start))
        stage.send(lines(10, start + 10), 1)
        stage.commit()
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], True)
    assert [found.verified for found in report.partitions] == [20, 20]
    assert report.entries == 4


def test_aborted_records_are_no_difference(stage):
    stage.write(lines(10))
    stage.send(lines(10, 10))
    stage.delivery.abort()
    stage.opened()
    stage.write(lines(10, 10))
    report = stage.audit()
    assert report.differences == []
    assert report.partitions[0].verified == 20


def test_a_committed_transaction_without_an_entry_is_found(stage, monkeypatch):
    stage.write(lines(10))
    with monkeypatch.context() as patched:
        patched.setattr(stage.delivery.ledger, "_new_entries", lambda writer: writer.runs.take() and ())
        stage.write(lines(10, 10))
    stage.write(lines(10, 20))
    (difference,) = stage.audit().differences
    assert (difference.kind, difference.records) == (DifferenceKind.WITHOUT_ENTRY, 10)
    assert difference.first == 11


def test_an_entry_without_its_records_is_found(stage, monkeypatch):
    stage.write(lines(10))
    with monkeypatch.context() as patched:
        patched.setattr(BatchQueue, "add", lose_all_of(stage.topic))
        stage.write(lines(10, 10))
    stage.write(lines(10, 20))
    (difference,) = stage.audit().differences
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, 10)
    assert (difference.entry.number, difference.first, difference.last) == (1, 10, 9)


def test_an_entry_that_is_missing_is_found(stage, monkeypatch):
    stage.limits = DIRECT
    stage.opened()
    stage.write(lines(10))
    with monkeypatch.context() as patched:
        patched.setattr(BatchQueue, "add", lose_all_of(stage.ledger))
        stage.write(lines(10, 10))
    stage.write(lines(10, 20))
    kinds = {difference.kind for difference in stage.audit().differences}
    assert kinds == {DifferenceKind.ENTRY_LOST, DifferenceKind.WITHOUT_ENTRY}


def test_period_without_a_ledger_is_noted_and_no_difference(stage):
    stage.write(lines(10))
    stage.opened("")
    stage.write(lines(10, 10))
    stage.opened()
    stage.write(lines(10, 20))
    report = stage.audit()
    assert report.differences == []
    assert report.partitions[0].verified == 20
    assert report.partitions[0].others == 10
    assert report.partitions[0].notes


def test_records_of_other_producers_are_no_difference(stage, kafka, log_writer):
    stage.write(lines(10))
    log_writer.send(stage.topic, ["another's"])
    stage.write(lines(10, 10))
    report = stage.audit()
    assert report.differences == []
    assert (report.partitions[0].verified, report.partitions[0].others) == (20, 1)


def test_records_that_were_deleted_are_no_difference(stage, log_writer):
    for start in range(0, 50, 10):
        stage.write(lines(10, start))
    log_writer.truncate(stage.topic, 25)
    report = stage.audit()
    assert report.differences == []
    assert report.is_complete
    assert report.partitions[0].verified >= 20


def test_loss_at_the_beginning_of_a_log_is_found(stage, monkeypatch, log_writer):
    """Everything before it is deleted, so it could seem to be deleted as well."""
    stage.write(lines(10))
    stage.write(lines(10, 10))
    log_writer.settle([stage.topic])
    log_writer.truncate(stage.topic, 22)
    with monkeypatch.context() as patched:
        patched.setattr(BatchQueue, "add", lose_all_of(stage.topic))
        stage.write(lines(10, 20))
    stage.write(lines(10, 30))
    report = stage.audit()
    (difference,) = report.differences
    assert (difference.kind, difference.records, difference.first) == (DifferenceKind.MISSING, 10, 22)
    assert report.partitions[0].notes == ["20 records of 2 entries are deleted"]


def test_recreated_topic_is_no_difference(stage, log_writer):
    stage.write(lines(10))
    stage.write(lines(10, 10))
    stage.delivery.close()
    log_writer.recreate(stage.topic, partitions=2)
    stage.opened()
    stage.write(lines(10, 20))
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], True)
    (found,) = report.partitions
    assert found.verified == 10
    assert found.notes == ["20 records of 2 entries were written to a topic of this name that was deleted"]


def test_loss_in_a_recreated_topic_is_found(stage, log_writer, monkeypatch):
    stage.write(lines(10))
    stage.delivery.close()
    log_writer.recreate(stage.topic, partitions=2)
    plant(monkeypatch, lose(b"line 0000015"))
    stage.opened()
    stage.write(lines(10, 10))
    (difference,) = stage.audit().differences
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, 1)


def test_transaction_left_open_by_a_killed_task_is_no_difference(stage):
    stage.write(lines(10))
    stage.send(lines(10, 10))
    killed = stage.delivery  # it neither commits nor aborts
    stage.opened()
    stage.write(lines(10, 10))
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], True)
    assert report.partitions[0].verified == 20
    killed.close()


def test_compacted_topic_is_no_difference_and_compared_records_are_counted(stage, kafka, log_writer):
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    policy = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.001"}
    admin.configs.alter({stage.topic: policy})
    stage.write(lines(3 * BLOCK), keys=[b"same", *lines(3 * BLOCK - 1)])
    stage.write([b"newer"], keys=[b"same"])

    def is_compacted() -> bool:
        log_writer.send(stage.topic, ["later"], key="later")  # begins a segment, so that the one before may be cleaned
        return bool(stage.audit().partitions[0].notes)

    eventually(is_compacted, within_s=120, every_s=0.2)
    report = stage.audit()
    assert report.differences == []
    assert report.partitions[0].verified == 2 * BLOCK + 1


def test_carried_entries_are_verified_and_a_loss_in_their_records_is_found(stage, monkeypatch):
    plant(monkeypatch, lose(b"line 0000025"))
    stage.opened()
    for start in range(0, 40, 10):
        stage.write(lines(10, start))
    assert len(stage.carried()) == 1
    report = stage.audit()
    (difference,) = report.differences
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, 1)
    assert difference.entry.number == 2
    assert report.partitions[0].verified == 30
    assert report.entries == 4


def test_entries_carried_by_a_killed_task_are_in_the_ledger_after_a_restart(stage, log_writer):
    for start in range(0, 30, 10):
        stage.write(lines(10, start))
    killed = stage.delivery
    stage.opened()  # it fences the killed one
    stage.write(lines(10, 30))
    assert stage.carried() == {}
    log_writer.recreate(stage.offsets, partitions=1)  # nothing is needed of it any more
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], True)
    assert (report.entries, report.partitions[0].verified) == (4, 40)
    killed.close()


def test_entries_of_a_former_ledger_are_found_after_a_change_of_the_ledger(stage):
    for start in range(0, 30, 10):
        stage.write(lines(10, start))
    first, stage.ledger = stage.ledger, f"{stage.ledger}-2"
    stage.opened()
    for start in range(30, 50, 10):
        stage.write(lines(10, start))
    for ledger, verified in ((first, 30), (stage.ledger, 20)):
        stage.ledger = ledger
        report = stage.audit()
        assert (report.differences, report.is_complete) == ([], True)
        assert (report.partitions[0].verified, report.partitions[0].others) == (verified, 50 - verified)


def test_lost_carried_entry_is_repeated_in_the_next_one(stage, monkeypatch):
    stage.write(lines(10))
    with monkeypatch.context() as patched:
        patched.setattr(BatchQueue, "add", lose_all_of(stage.offsets))
        stage.write(lines(10, 10))
    stage.write(lines(10, 20))
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], True)
    assert report.partitions[0].verified == 30


def test_records_without_any_carried_entry_are_noted(stage, monkeypatch, log_writer):
    """As with the last entry of the ledger's topic: nothing of the same start says that there was one."""
    stage.write(lines(10))
    with monkeypatch.context() as patched:
        patched.setattr(BatchQueue, "add", lose_all_of(stage.offsets))
        stage.write(lines(10, 10))
    log_writer.settle([stage.topic])
    (found,) = stage.audit().partitions
    assert (found.verified, found.others) == (10, 10)
    assert "without a ledger" in found.notes[0]


def test_records_without_any_carried_entry_are_found_by_producer_epochs(stage, monkeypatch, log_writer):
    """It has given each of its transactions another one, as two of its entries show."""
    stage.limits = CarryLimits(entries=1, time_s=600.0)
    stage.opened()
    for start in range(0, 30, 10):
        stage.write(lines(10, start))
    assert stage.carried() == {}
    with monkeypatch.context() as patched:
        patched.setattr(BatchQueue, "add", lose_all_of(stage.offsets))
        stage.write(lines(10, 30))
    log_writer.settle([stage.topic])
    (difference,) = stage.audit().differences
    assert (difference.kind, difference.records) == (DifferenceKind.WITHOUT_ENTRY, 10)
    assert difference.first == 33


def test_start_without_a_ledger_is_recognized_by_its_producer_epochs(stage):
    stage.limits = DIRECT
    stage.opened()
    for ledger in (None, "", None):
        stage.opened(ledger)
        for start in range(0, 20, 10):
            stage.write(lines(10, start))
    report = stage.audit()
    assert report.differences == []
    assert (report.partitions[0].verified, report.partitions[0].others) == (40, 20)


def test_offsets_of_a_connector_are_read_without_carried_entries(stage):
    for start in range(0, 30, 10):
        stage.write(lines(10, start))
    assert stage.stored_offsets() == [({"file": "f"}, {})]


def test_entries_in_an_offsets_topic_that_was_compacted_are_complete(stage, kafka, log_writer):
    """Of the records of one key only the newest stays, and it has all that the ledger does not have."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    policy = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.001"}
    admin.configs.alter({stage.offsets: policy})
    for start in range(0, 50, 10):
        stage.write(lines(10, start))

    def is_compacted() -> bool:
        log_writer.send(stage.offsets, ["{}"], key='["another",{}]')
        return stage.carried_records() == 1

    assert eventually(is_compacted, within_s=120, every_s=0.2)
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], True)
    assert (report.entries, report.partitions[0].verified) == (5, 50)


def test_unreadable_ledger_record_is_named_and_the_rest_is_compared(stage, monkeypatch, log_writer):
    """It may be the entry of any transaction, so none of them is said to have no entry."""
    stage.write(lines(10))
    with monkeypatch.context() as patched:
        patched.setattr(stage.delivery.ledger, "_new_entries", lambda writer: writer.runs.take() and ())
        stage.write(lines(10, 10))
    log_writer.send(stage.ledger, ['{"version": 2}'], key="c")
    stage.write(lines(10, 20))
    report = stage.audit()
    assert (report.differences, report.is_complete) == ([], False)
    assert (report.partitions[0].verified, report.partitions[0].others) == (20, 10)
    (note,) = report.notes
    assert note.startswith("1 record of the ledger cannot be read")
    assert f"{stage.ledger}-0@" in note
    assert "its version is 2" in note


def test_unreadable_carried_record_is_named_after_it_was_replaced(stage, log_writer):
    """Whoever replaces it may have left out what could not be read."""
    for start in range(0, 30, 10):
        stage.write(lines(10, start))
    log_writer.send(stage.offsets, ["{}"], key=carried_key("c", 0, stage.ledger))
    for verified in (30, 40):
        report = stage.audit()
        assert (report.differences, report.is_complete) == ([], False)
        assert report.partitions[0].verified == verified
        assert f"{stage.offsets}-0@" in report.notes[0]
        stage.write(lines(10, verified))
