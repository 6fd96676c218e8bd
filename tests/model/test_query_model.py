"""Every state of a small query is visited: each rule of its sink is needed, and with all of them nothing goes wrong."""

from dataclasses import replace

import pytest

from model.query import Decides, QueryWorld, Rules
from model.search import search
from support.long_form import IS_LONG

BATCHES, LOSSES, STARTS, LEAST_STATES = (3, 2, 2, 100_000) if IS_LONG else (2, 1, 1, 10_000)
COPIED = QueryWorld(is_copied=True)


@pytest.mark.parametrize(
    ("world", "symptom"),
    [
        (QueryWorld(Rules(decides=Decides.AFTER)), "batch 0 is doubled"),
        (QueryWorld(Rules(decides=Decides.BEFORE)), "batch 0 is half-committed"),
        (QueryWorld(Rules(reads_after_id=False)), "batch 0 is doubled"),
        (QueryWorld(Rules(reads_committed=False)), "batch 0 is skipped"),
        (QueryWorld(Rules(takes_over_after_loss=False)), "batch 1 is half-committed"),
        (replace(COPIED, rules=Rules(compares=False)), "batch 0 is skipped"),
    ],
    ids=[
        "decision after the transaction",
        "decision before the end of the transaction",
        "decision read before the id is taken",
        "decision read before its transaction has ended",
        "end repeated",
        "batch of a copied checkpoint skipped",
    ],
)
def test_model_finds_a_wrong_batch_when_a_rule_is_broken(world, symptom, capfd):
    found = search(world)
    with capfd.disabled():
        print(f"\n{found.states:,} states, {len(str(found).splitlines())} lines:\n{found}")
    assert found.trace, "nothing was found"
    assert symptom in found.trace[-1]


@pytest.mark.parametrize("is_copied", [False, True])
def test_model_finds_no_wrong_batch_when_every_rule_is_kept(is_copied, capfd):
    found = search(QueryWorld(batches=BATCHES, losses=LOSSES, starts=STARTS, is_copied=is_copied))
    with capfd.disabled():
        print(f"\n{found.states:,} states", end="")
    assert not found.trace, str(found)
    assert found.is_done_reached, "a search that never delivers anything proves nothing"
    assert found.states >= LEAST_STATES


def test_decision_that_is_read_too_early_makes_no_driver_skip_a_batch(capfd):
    """Decisions only grow, and what is decided stays visible: an older one is of less, so it doubles at worst."""
    found = search(QueryWorld(Rules(reads_after_id=False), losses=LOSSES, starts=STARTS, most_copies=1 << 30))
    with capfd.disabled():
        print(f"\n{found.states:,} states", end="")
    assert not found.trace, str(found)
    assert found.is_done_reached
    assert found.states >= LEAST_STATES
