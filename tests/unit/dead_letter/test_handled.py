"""The progress of a resend, as the offset of a group and as a mark keep it."""

import random

import pytest

from fencepost.api import FatalError
from fencepost.dead_letter.progress import Handled, Mark, handled_by, handled_in, is_mark
from fencepost.kafka.read.browse import TopicRecord
from fencepost.kafka.value.position import GroupOffset
from support.seed import new_seed

CASES = [Handled(5), Handled(5, frozenset({7})), Handled(0, frozenset({1, 2, 3, 9, 11, 12}))]
DISORDERED = ["1-9223372036854775807,9223372036854775807-2", "3-1", "5,5", "5-9,9", "7,4"]
"""Sums of their lengths say nothing of how many offsets they are."""


def record_of(mark: Mark) -> TopicRecord:
    return TopicRecord(0, 99, 1_000, mark.key, mark.value, tuple(mark.headers))


@pytest.mark.parametrize("handled", CASES)
def test_resend_progress_survives_a_round_trip(handled: Handled) -> None:
    assert Handled.of_offset(handled.passed, handled.metadata) == handled
    record = record_of(Mark.of("c", handled))
    assert is_mark(record)
    assert handled_by(record, "c") == handled
    assert handled_by(record, "other") is None


def test_resend_progress_stores_single_dead_letters_as_ranges() -> None:
    assert Handled(0, frozenset({1, 2, 3, 9, 11, 12})).metadata == "ahead 1-3,9,11-12"
    assert Handled(5).metadata == ""


def test_group_metadata_of_other_tools_is_ignored() -> None:
    assert Handled.of_offset(5, "some tool") == Handled(5)


@pytest.mark.parametrize("text", ["", "7-", "x", "1,,2", "0-9999999999999999999", "5;6", *DISORDERED])
def test_unreadable_resend_progress_is_an_error(text: str) -> None:
    with pytest.raises(FatalError, match="progress of resending cannot be read"):
        Handled.of_offset(5, f"ahead {text}")


@pytest.mark.parametrize(
    ("header", "text"),
    [
        *(("ahead", text) for text in ("x", "99", "7,200", *DISORDERED)),
        *(("passed", text) for text in ("9" * 5_000, "", "-1", "100")),
    ],
)
def test_resend_mark_with_impossible_values_is_ignored(header: str, text: str) -> None:
    """Such a mark blocks neither the page nor the resend. The mark's own offset is 99."""
    mark = record_of(Mark.of("c", Handled(5, frozenset({7}))))
    others = [each for each in mark.headers if not each[0].endswith(header)]
    name = f"__fencepost.resent.{header}"
    assert handled_by(mark._replace(headers=(*others, (name, text.encode()))), "c") is None


def test_resend_progress_too_large_for_the_broker_is_refused() -> None:
    Handled(0, frozenset(range(1, 1_000, 2))).ensure_storable()
    with pytest.raises(FatalError, match="Too many single dead letters"):
        Handled(0, frozenset(range(1, 100_000, 2))).ensure_storable()


def test_resend_progress_with_any_offsets_survives_a_round_trip() -> None:
    drawn = random.Random(new_seed())
    for _ in range(200):
        ahead = frozenset(drawn.sample(range(60), drawn.randint(0, 40)))
        handled = Handled(drawn.randint(0, 60), ahead)
        assert Handled.of_offset(handled.passed, handled.metadata) == handled


def test_suggested_group_deletion_command_is_quoted_for_a_shell() -> None:
    """A connector may have any name."""
    with pytest.raises(FatalError, match=r"--bootstrap-server HOST:PORT --delete --group 'my \$c; id'$"):
        handled_in("my $c; id", {0: GroupOffset("dead", 0, 5, "ahead x")})
