"""Offsets that an administrator sets: those with which a task could not continue are refused."""

from typing import Any

import pytest

from fencepost.api import ConnectError, Split
from fencepost.builtin.connector.spool.source import SpoolDirectorySource

FILE = {"file": "file:/in/a.csv", "size": 10, "mtime": 1_700_000_000_000}


def alter(partition: dict[str, Any], offset: dict[str, Any] | None) -> bool:
    connector = SpoolDirectorySource({"input.path": "/in", "topic": "t"})
    return connector.alter_offsets({tuple(partition.items()): offset})


@pytest.mark.parametrize(
    "offset",
    [
        None,
        {"done": True},
        {"done": True, "rows": 7},
        {"rows": 0},
        {"rows": 3, "reading": "columns=1a2b3c4d"},
        {"done": False, "rows": 3},
    ],
)
def test_spool_offset_that_a_task_could_have_committed_is_accepted(offset: dict[str, Any] | None) -> None:
    assert alter(FILE, offset)


def test_any_spool_offset_can_be_deleted() -> None:
    assert alter({"filename": "of another connector"}, None)


@pytest.mark.parametrize(
    ("partition", "offset", "named"),
    [
        ({"file": "/in/a.csv"}, {"done": True}, "'size'"),
        (FILE | {"size": "10"}, {"done": True}, "'size'"),
        (FILE | {"more": 1}, {"done": True}, "no others"),
        (FILE, {"done": "false"}, "'done'"),
        (FILE, {"done": 1}, "'done'"),
        (FILE, {"done": False}, "'rows'"),
        (FILE, {}, "'rows'"),
        (FILE, {"rows": "3"}, "'rows'"),
        (FILE, {"rows": -1}, "'rows'"),
        (FILE, {"rows": True}, "'rows'"),
        (FILE, {"position": 3}, "'position'"),
        (FILE, {"rows": 3, "reading": 4}, "'reading'"),
    ],
)
def test_e12_spool_offset_that_no_task_could_continue_from_is_refused(
    partition: dict[str, Any], offset: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConnectError, match=named):
        alter(partition, offset)


def test_spool_source_ignores_offsets_of_another_connector_with_its_name() -> None:
    connector = SpoolDirectorySource({"input.path": "/in", "topic": "t"})
    assert not connector.is_removed(None, Split({"filename": "/x"}))
