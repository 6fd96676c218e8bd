"""Whether a batch is written, skipped or refused."""

import pytest

from fencepost.spark.write.checkpoint import DECIDED
from fencepost.spark.write.decision import (
    DecidedOtherwiseError,
    Decision,
    MissingDecisionError,
    ensure_kept,
    is_decided,
)


def test_batch_is_written_when_nothing_or_an_older_one_is_decided() -> None:
    assert not is_decided(None, 0, "a")
    assert not is_decided(Decision(3, "a"), 4, "b")
    assert not is_decided(Decision(3, "a"), 9, "a")


def test_batch_is_skipped_when_the_same_one_is_decided() -> None:
    assert is_decided(Decision(3, "a"), 3, "a")


@pytest.mark.parametrize(
    ("batch", "digest", "reason"),
    [(3, "b", "made of other offsets"), (2, "a", "batch 3 is the newest that is written"), (0, "b", "batch 3 is")],
)
def test_batch_is_refused_when_another_one_is_decided(batch: int, digest: str, reason: str) -> None:
    with pytest.raises(DecidedOtherwiseError, match=f"batch {batch} is not written: .*{reason}"):
        is_decided(Decision(3, "a"), batch, digest)


@pytest.mark.parametrize(
    ("decision", "least", "found"),
    [(None, 0, "has no decision about this query"), (Decision(2, "a"), 4, "has batch 2 as the newest")],
)
def test_batch_is_refused_when_decisions_before_it_are_lost(decision: Decision | None, least: int, found: str) -> None:
    with pytest.raises(MissingDecisionError, match=f"batch 5 is not written: topic done {found}, .* remove {DECIDED}"):
        ensure_kept(decision, 5, least, "done")


def test_batch_is_written_when_no_decision_is_missing() -> None:
    ensure_kept(None, 5, -1, "done")
    ensure_kept(Decision(4, "a"), 5, 4, "done")


def test_record_of_a_decision_has_a_stable_key() -> None:
    key, value = Decision(7, "d", 12, 1_000).record("query")
    assert key == b'["fencepost-batch",{"id":"query"}]'
    assert value == b'{"batch":7,"digest":"d","rows":12,"at":1000}'
