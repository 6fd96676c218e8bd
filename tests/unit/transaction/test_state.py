"""The table of a writer's states: what is not in it cannot happen."""

import itertools

import pytest

from fencepost.transaction.writer import LEGAL_MOVES, IllegalMoveError, WriterState, move

S = WriterState


@pytest.mark.parametrize(("current", "target"), list(itertools.product(S, S)))
def test_only_moves_in_the_table_are_made(current, target):
    if target in LEGAL_MOVES[current]:
        assert move(current, target) is target
    else:
        with pytest.raises(IllegalMoveError, match=current.value):
            move(current, target)


def test_every_state_has_a_row_in_the_table_of_moves():
    assert set(LEGAL_MOVES) == set(S)


def test_every_state_but_closed_can_be_closed():
    assert {state for state in S if S.CLOSED in LEGAL_MOVES[state]} == set(S) - {S.CLOSED}
    assert LEGAL_MOVES[S.CLOSED] == frozenset()


@pytest.mark.parametrize("state", [S.STRUCK, S.UNKNOWN, S.FENCED, S.CLOSED])
def test_e5_e6_no_path_leads_from_a_spent_state_back_to_a_transaction(state):
    reached, frontier = set(), {state}
    while frontier:
        reached |= frontier
        frontier = {target for s in frontier for target in LEGAL_MOVES[s]} - reached
    assert not reached & {S.NEW, S.OPEN, S.IN_TRANSACTION}


def test_e6_an_unknown_commit_can_only_be_closed():
    assert LEGAL_MOVES[S.UNKNOWN] == {S.CLOSED}


def test_a_transaction_begins_only_in_an_open_writer():
    assert {s for s in S if S.IN_TRANSACTION in LEGAL_MOVES[s]} == {S.OPEN}
