"""The note that names an offset's producer: its text, and what is no such text."""

import pytest

from fencepost.kafka.group.group_offsets import METADATA_MAX_BYTES, Contribution, contribution_of, inner_metadata

BY = Contribution("connect-cluster-C-0", 7, 3)


@pytest.mark.parametrize("other", ["", "plain", '{"some": ["json"]}', "ü \0 ", "AgAAAZ=="])
def test_contribution_note_names_the_producer_and_keeps_other_metadata(other):
    assert contribution_of(BY.to_metadata(other)) == BY
    assert inner_metadata(BY.to_metadata(other)) == other


def test_contribution_note_is_left_out_when_metadata_would_be_too_large():
    note = BY.to_metadata("x" * (METADATA_MAX_BYTES - 20))
    assert note == "x" * (METADATA_MAX_BYTES - 20)
    assert contribution_of(note) is None
    assert contribution_of(BY.to_metadata("x" * 3000)) == BY


@pytest.mark.parametrize(
    "note",
    [
        "",
        "forgotten",
        "null",
        "[1]",
        "7",
        "{",
        '{"fencepost.by": null}',
        '{"fencepost.by": ["id", 1]}',
        '{"fencepost.by": ["id", "1", 2]}',
        '{"fencepost.by": [1, 1, 2]}',
        '{"fencepost.by": ["id", true, 2]}',
    ],
)
def test_foreign_metadata_names_no_producer(note):
    assert contribution_of(note) is None


@pytest.mark.parametrize("note", ["", "forgotten", '{"plan": 1}', "{"])
def test_foreign_metadata_is_kept_whole(note):
    assert inner_metadata(note) == note
