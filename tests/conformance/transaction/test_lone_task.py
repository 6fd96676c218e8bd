"""A whole task, with its runner and its lanes, under faults of the network: what must hold at one chosen moment.

`tests/planted` breaks a rule at a time, and then one of these tests fails.
"""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.table import BATCH, CLIENT
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import judge
from support.chaos.wire import of
from support.late.lone_task import LoneTask
from support.proxy import Action, ApiKey, Matches, Request, Rule

SIZES = (3, 4, 5, 6, 7, 8)


@pytest.fixture
def make(kafka: EmbeddedKafka, client: str, topic: str, offsets_topic: str) -> Iterator[Callable[..., LoneTask]]:
    """Makes tasks that deliver the same numbers to the same topic; each is stopped in the end."""
    tasks: list[LoneTask] = []

    def make(**how) -> LoneTask:
        # What a test withholds is not sent again meanwhile.
        conf = {CLIENT: client, "socket.timeout.ms": "60000"}
        tasks.append(LoneTask(kafka.bootstrap_servers, topic, offsets_topic, SIZES, conf=conf, **how))
        return tasks[-1]

    yield make
    for task in tasks:
        task.runner.abandon()
        task.stop(within_s=5)


@pytest.fixture
def beginning(client: str) -> ApiKey:
    """The request by which the coordinator hears of a transaction first."""
    return ApiKey.PRODUCE if client == BATCH else ApiKey.ADD_PARTITIONS_TO_TXN


@pytest.fixture
def reader(kafka: EmbeddedKafka, topic: str) -> Iterator[CommittedReader]:
    with CommittedReader(kafka.bootstrap_servers, [topic]) as running:
        yield running


def in_transaction(number: int, request: ApiKey, transactional_id: str) -> Matches:
    """Match the requests of a kind in the transaction of that number, counted from now on by the ends before it.

    A rule that withholds an end hides it from the rules after it.
    """
    ended, is_own = 0, of([transactional_id])

    def is_it(seen: Request) -> bool:
        nonlocal ended
        if not is_own(seen):
            return False
        is_there = ended == number - 1 and seen.api_key == request
        ended += seen.api_key == ApiKey.END_TXN
        return is_there

    return is_it


def withheld(proxy, request: ApiKey, number: int, transactional_id: str) -> Rule:
    """Withhold the first request of a kind in a producer's transaction of that number."""
    return proxy.on(None, Action.HOLD, matches=in_transaction(number, request, transactional_id))


def numbers(reader: CommittedReader) -> list[int]:
    return [int(seen.value or b"") for seen in reader.seen()]


def until_delivered(reader: CommittedReader) -> None:
    eventually(lambda: sum(SIZES) - 1 in numbers(reader))


def ensure_exact(reader: CommittedReader) -> None:
    verdict = judge(
        {"numbers": range(sum(SIZES))}, reader.read_all(), sighting=lambda o: ("numbers", int(o.value or b""))
    )
    assert verdict.is_clean, str(verdict)


@pytest.mark.parametrize("lanes", [1, 2])
def test_e1_position_covers_all_visible_records_when_a_commit_is_withheld(
    kafka, make, proxy, reader, offsets_topic, lanes
):
    task = make(via=proxy.bootstrap_servers, lanes=lanes)
    commit = withheld(proxy, ApiKey.END_TXN, 2, task.transactional_ids[0])
    task.start()
    commit.await_met()

    def position() -> int:
        """Return the newest position that is visible, of all that are now."""
        log, found = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, offsets_topic), [0]
        log.read_to_end(10, lambda seen: found.append(json.loads(seen.value or b"{}")["next"]), waits=False)
        log.close()
        return max(found)

    eventually(lambda: position() == len(numbers(reader)) > 0, within_s=20)
    commit.release()
    until_delivered(reader)
    eventually(lambda: position() == sum(SIZES))
    ensure_exact(reader)


def test_e2_neither_lane_of_a_zombie_commits_when_its_successor_uses_one(make, proxy, reader, beginning):
    zombie = make(via=proxy.bootstrap_servers, lanes=2)
    first, second = zombie.transactional_ids
    begin = withheld(proxy, beginning, 2, second)
    withheld(proxy, beginning, 3, first)  # or its first lane may tell it of the fence
    zombie.start()
    begin.await_met()
    eventually(lambda: len(numbers(reader)) == sum(SIZES[:3]))  # nor is anything left to end in the first lane
    successor = make(lanes=1)
    successor.start()
    until_delivered(reader)
    zombie.is_current = False
    begin.release()
    eventually(lambda: zombie.state == "ABANDONED" or len(numbers(reader)) > sum(SIZES))
    ensure_exact(reader)
    assert zombie.state == "ABANDONED"
    assert successor.position() == sum(SIZES)


def test_no_lane_commits_before_the_previous_transaction(make, proxy, reader):
    task = make(via=proxy.bootstrap_servers, lanes=2)
    first, second = task.transactional_ids
    commit = withheld(proxy, ApiKey.END_TXN, 2, first)
    about_second = of([second])
    sent = proxy.on(None, Action.PASS, count=1000, matches=in_transaction(2, ApiKey.PRODUCE, second))
    early = proxy.on(ApiKey.END_TXN, Action.PASS, matches=lambda r: commit.met > 0 and about_second(r))
    begun_s = time.monotonic()
    task.start()
    commit.await_met()
    sent.await_answered()
    if early.met_meanwhile(begun_s, times=1):  # the clients' start is in that time
        early.await_answered()  # it counts
    task.is_current = False
    task.runner.abandon()
    successor = make(lanes=2)
    successor.start()
    until_delivered(reader)
    commit.release()  # refused: its producer is fenced
    ensure_exact(reader)
    assert early.met == 0


def test_e3_records_that_a_zombie_commits_before_the_fence_are_not_redelivered(make, proxy, reader, beginning):
    zombie = make(via=proxy.bootstrap_servers)
    more = withheld(proxy, beginning, 3, zombie.transactional_ids[0])
    begin = withheld(proxy, beginning, 2, zombie.transactional_ids[0])
    zombie.start()
    begin.await_met()
    successor = make(via=proxy.bootstrap_servers)
    fence = withheld(proxy, ApiKey.INIT_PRODUCER_ID, 1, successor.transactional_ids[0])
    successor.start()
    fence.await_met()
    zombie.is_current = False
    begin.release()
    more.await_met()  # one more transaction is committed
    fence.release()
    until_delivered(reader)
    more.release()
    eventually(lambda: zombie.state == "ABANDONED")
    ensure_exact(reader)


def test_no_lane_sends_before_the_previous_transaction_is_flushed(make, client, proxy, reader):
    task = make(via=proxy.bootstrap_servers, lanes=2)
    first, second = task.transactional_ids
    records = withheld(proxy, ApiKey.PRODUCE, 2, first)
    about_second = of([second])
    begun = proxy.on(None, Action.PASS, matches=in_transaction(2, ApiKey.ADD_PARTITIONS_TO_TXN, second))
    early = proxy.on(ApiKey.PRODUCE, Action.PASS, matches=lambda r: records.met > 0 and about_second(r))
    begun_s = time.monotonic()
    task.start()
    records.await_met()
    if client != BATCH:  # which has no request that only begins
        begun.await_answered()
    was_early = early.met_meanwhile(begun_s, times=1)  # the clients' start is in that time
    records.release()
    assert was_early == 0
    until_delivered(reader)
    ensure_exact(reader)
