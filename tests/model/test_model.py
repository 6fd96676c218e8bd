"""Every state of a small world is visited: each rule is needed, and with all of them nothing goes wrong."""

import time
from dataclasses import replace

import pytest

from model.broker import Kind, Way
from model.search import Found, search
from model.task import ALL_KINDS, Plan, Rules
from model.world import World
from support.long_form import IS_LONG

GROUP = Way(keeps_group_offsets=True)
# The short form has as many transactions and repeated requests as a broken rule needs above to be found.
TRANSACTIONS, RESENDS, LEAST_STATES = (3, 2, 800_000) if IS_LONG else (2, 1, 200_000)


def _shown(found: Found, capfd: pytest.CaptureFixture[str]) -> str:
    with capfd.disabled():
        print(f"\n{found.states:,} states, {len(str(found).splitlines())} lines:\n{found}")
    assert found.trace, "nothing was found"
    return found.trace[-1]


def test_model_tears_a_transaction_when_no_strike_retires_a_producer(capfd):
    found = search(World(Plan(Rules(strikes=frozenset()), transactions=2), takeovers=0))
    assert "torn" in _shown(found, capfd)
    assert "EndTxn(commit) of lane 0, epoch 1, transaction 0 is done unheard" in found.trace[-2]


def test_model_moves_a_position_back_if_only_a_repeated_end_retires_a_producer(capfd):
    rules = Rules(strikes=frozenset({Kind.INIT, Kind.COMMIT, Kind.ABORT}))
    found = search(World(Plan(rules, transactions=2, way=GROUP), takeovers=0))
    assert "the position goes back from 2 to 1" in _shown(found, capfd)


def test_model_tears_a_transaction_when_an_abandoned_transaction_ends_late(capfd):
    """A late abort takes the records of a transaction away; its position begins another, which is committed."""
    rules, way = Rules(strikes=ALL_KINDS - {Kind.ABORT}), Way(True, frozenset({0}))
    found = search(World(Plan(rules, transactions=2, way=way), takeovers=0))
    assert "EndTxn(abort)" in str(found)
    assert _shown(found, capfd)


@pytest.mark.parametrize(
    ("rules", "lanes"),
    [
        (Rules(position_in_transaction=False), 1),
        (Rules(fenced_lanes=0), 1),
        (Rules(reads_after_fence=False), 1),
        (Rules(repeats_unknown_commits=True), 1),
        (Rules(fenced_lanes=1), 2),
        (Rules(commits_in_order=False), 2),
        (Rules(flushes_before_next_lane=False), 2),
    ],
    ids=[
        "E1 position outside the transaction",
        "E2 no fence",
        "E3 position before the fence",
        "E6 second commit",
        "lanes, one id fenced",
        "lanes, second commits before the first",
        "lanes, second sends before the first is flushed",
    ],
)
def test_model_finds_an_anomaly_when_a_rule_is_broken(rules, lanes, capfd):
    _shown(search(World(Plan(rules, lanes, transactions=2), resends=lanes % 2)), capfd)


MIRROR = Plan(lanes=2, is_moved=True, transactions=2, way=GROUP)
"""A group without members keeps the position, and takes it from whoever comes; a plan gives what a task has to another
task, whose id is another one."""


@pytest.mark.parametrize(
    "rules",
    [Rules(has_round=False), Rules(reads_after_fence=False), Rules(position_in_transaction=False)],
    ids=["E18 no round of fencing", "E3 position before the fence", "E18 position outside the transaction"],
)
def test_model_doubles_a_record_of_a_mirror_when_a_rule_is_broken(rules, capfd):
    """Nobody sends anything twice; there is a zombie, and a new plan."""
    found = _shown(search(World(replace(MIRROR, rules=rules), resends=0)), capfd)
    assert "duplicated" in found or "torn" in found


MEMBER = replace(MIRROR, is_moved=True, is_member=True)
"""The position is a group's that has members: the partition is given to another task, whose id is another one."""


@pytest.mark.parametrize(
    "rules",
    [Rules(tells_generation=False), Rules(tells_generation=False, fences_by_input=False), Rules(reads_stable=False)],
    ids=["E19 no generation", "E19 neither generation nor map", "E20 position read unstable"],
)
def test_model_doubles_an_input_record_when_a_rule_of_its_group_is_broken(rules, capfd):
    """Nobody sends anything twice; there is a zombie, and a rebalance."""
    found = _shown(search(World(replace(MEMBER, rules=rules), resends=0)), capfd)
    assert "duplicated" in found or "torn" in found


def test_model_stalls_when_no_member_fences_by_input(capfd):
    """A member that is dead has a transaction open: its successor has another id, and waits until the time-out."""
    without = search(World(replace(MEMBER, rules=Rules(fences_by_input=False)), resends=0, dies=True))
    assert not without.trace
    assert without.standstill, "nothing was waited for"
    with_it = search(World(MEMBER, resends=0, dies=True))
    assert not with_it.trace
    assert with_it.is_done_reached
    assert not with_it.standstill, "\n".join(with_it.standstill)


ONE_LANE = Plan(transactions=TRANSACTIONS)
TWO_LANES = Plan(lanes=2, transactions=TRANSACTIONS)
WORLDS = {
    "one lane, late and lost requests, takeover": World(ONE_LANE, resends=RESENDS),
    "positions in a group": World(replace(ONE_LANE, way=GROUP), resends=RESENDS),
    "a transaction that is given up": World(replace(ONE_LANE, way=Way(given_up=frozenset({0}))), resends=RESENDS),
    "two takeovers": World(ONE_LANE, takeovers=2),
    "two lanes, late and lost requests": World(TWO_LANES, resends=RESENDS, takeovers=0),
    "two lanes, late and lost requests, takeover": World(TWO_LANES),
    "a mirror, a new plan": World(MIRROR),
    "a mirror, two new plans": World(MIRROR, resends=0, takeovers=2),
    "a group with members, a rebalance": World(MEMBER),
    "a group with members, two rebalances": World(MEMBER, resends=0, takeovers=2),
    "two lanes, then one": World(replace(TWO_LANES, later_lanes=1)),
}


def test_model_finds_nothing_when_every_rule_is_kept(capfd):
    total = 0
    for name, world in WORLDS.items():
        started = time.monotonic()
        found = search(world)
        total += found.states
        with capfd.disabled():
            print(f"\n{name}: {found.states:,} states in {time.monotonic() - started:.1f} s", end="", flush=True)
        assert not found.trace, str(found)
        assert found.is_done_reached, "a search that never delivers anything proves nothing"
    assert total >= LEAST_STATES
