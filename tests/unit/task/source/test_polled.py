"""What poll may return, and how anything else is put to the author."""

from typing import Any

import pytest

from fencepost.api import Batch, FatalError, SourceRecord
from fencepost.task.source.loop import in_batches
from fencepost.task.source.offsets import OffsetBook

RECORD = SourceRecord({"f": 1}, {"n": 1}, "t", "v")


def test_records_are_batches_and_stay_the_authors_own_objects() -> None:
    records, batches = in_batches((RECORD, RECORD), "Mine")
    assert records is not None
    assert records[0] is RECORD
    assert [len(batch) for batch in batches] == [2]
    assert in_batches(batches[0], "Mine") == (None, batches)
    assert in_batches(None, "Mine") == (None, [])
    assert in_batches([], "Mine") == ([], [])
    assert in_batches(iter([RECORD]), "Mine")[0] == [RECORD]


@pytest.mark.parametrize(
    ("polled", "said"),
    [
        (RECORD, r"returned a single SourceRecord: return a list, \[record\]"),
        ({"n": 1}, r"returned a single row: return Batch\.of_rows"),
        ([{"n": 1}], r"returned a list of dicts, which say no topic and no offset: return Batch\.of_rows"),
        ([RECORD, "v"], "returned a list whose item 1 is str 'v'"),
        ([RECORD, SourceRecord], "returned a list whose item 1 is the class SourceRecord"),
        ("text", "returned str 'text': return Batch"),
        (7, "returned int 7: return Batch"),
        ([Batch.of_records([RECORD])[0]], "returned a list whose item 0 is Batch"),
    ],
)
def test_malformed_poll_result_fails_the_task_with_the_valid_forms(polled: Any, said: str) -> None:
    with pytest.raises(FatalError, match=rf"poll\(\) of PriceTask {said}"):
        in_batches(polled, "PriceTask")


@pytest.mark.parametrize(
    ("partition", "offset", "said"),
    [
        (
            {"f": 1},
            5,
            "the source_offset of a record is 5, which is no mapping: give it a name, such as {'position': 5}",
        ),
        ("a.txt", {"n": 1}, "the source_partition of a record is 'a.txt', which is no mapping"),
    ],
)
def test_offset_that_is_not_a_mapping_is_refused_in_terms_of_the_api(partition: Any, offset: Any, said: str) -> None:
    with pytest.raises(FatalError, match=said):
        OffsetBook().add([(partition, offset)])
