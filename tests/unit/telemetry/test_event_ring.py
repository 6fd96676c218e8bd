"""The last log events of connectors: which are kept, and which are found."""

import logging
import threading
from collections.abc import Iterator

import pytest

from fencepost.secret.known import hold
from fencepost.telemetry.event_ring import EventRing
from fencepost.telemetry.loggers import about, fields_of

log = logging.getLogger("fencepost.test_event_ring")


@pytest.fixture
def ring() -> Iterator[EventRing]:
    """Attached to this module's logger; keeps some 10 events of 1,000 characters of a connector, and 20 of all."""
    kept = EventRing(most_bytes=28_000, most_bytes_of_one=14_000)
    log.addHandler(kept)
    log.setLevel(logging.DEBUG)
    yield kept
    log.removeHandler(kept)


def texts(ring: EventRing, connector: str, after: int | None = None, **more: int) -> list[str]:
    return [event.message[:2] for _, event in ring.read(connector, after, **more).events]


def say(connector: str, *lines: str, level: int = logging.INFO, task: int | None = None) -> None:
    for line in lines:
        log.log(level, line, extra=fields_of(connector, task))


def test_events_are_kept_per_connector_and_worker_events_are_not(ring: EventRing) -> None:
    log.info("of the worker")
    with about("a", 3):
        log.warning("no. %d", 1)
    say("b", "other")
    (_, event), *others = ring.read("a").events
    assert others == []
    assert (event.level, event.connector, event.task, event.message) == ("WARNING", "a", 3, "no. 1")
    assert event.time.endswith("Z")
    assert event.exception is None


def test_reading_continues_where_the_last_answer_ended(ring: EventRing) -> None:
    say("a", "1", "2", "3")
    first = ring.read("a", 0, limit=2)
    assert [e.message for _, e in first.events] == ["1", "2"]
    say("a", "4")
    second = ring.read("a", first.next, limit=2)
    assert ([e.message for _, e in second.events], second.dropped) == (["3", "4"], 0)
    assert ring.read("a", second.next).events == []


def test_newest_events_are_read_without_a_cursor(ring: EventRing) -> None:
    say("a", "1", "2", "3")
    found = ring.read("a", limit=2)
    assert ([e.message for _, e in found.events], found.next, found.dropped) == (["2", "3"], 3, 0)


def test_events_are_chosen_by_task_and_level(ring: EventRing) -> None:
    say("a", "c0")
    say("a", "t1", task=1)
    say("a", "e1", task=1, level=logging.ERROR)
    say("a", "e2", task=2, level=logging.ERROR)
    assert texts(ring, "a", task=1) == ["t1", "e1"]
    assert texts(ring, "a", level=logging.ERROR) == ["e1", "e2"]
    assert texts(ring, "a", 0, level=logging.WARNING, task=1) == ["e1"]
    assert ring.read("a", 0, task=9).next == 4  # they are not looked at again


def test_busy_connector_loses_its_oldest_events_and_they_are_counted(ring: EventRing) -> None:
    say("quiet", "only", level=logging.ERROR)
    say("loud", *(f"{n:02}" + "x" * 998 for n in range(50)))
    assert texts(ring, "loud") == [f"{n:02}" for n in range(40, 50)]
    assert ring.read("loud", 15).dropped == 25
    assert texts(ring, "quiet") == ["on"]


def test_event_texts_count_with_their_size_in_memory(ring: EventRing) -> None:
    say("a", *(f"{n:02}" + "🦊" * 998 for n in range(50)))
    assert texts(ring, "a") == ["47", "48", "49"]


def test_total_limit_drops_events_of_the_largest_connector(ring: EventRing) -> None:
    say("quiet", "only")
    for n in range(4):
        say(f"loud-{n}", *("x" * 1000 for _ in range(10)))
    kept = [len(ring.read(f"loud-{n}").events) for n in range(4)]
    assert 18 <= sum(kept) <= 20
    assert max(kept) - min(kept) <= 5
    assert texts(ring, "quiet") == ["on"]


def test_long_event_is_cut_so_that_others_are_kept(ring: EventRing) -> None:
    say("a", "1", "y" * 1_000_000)
    assert [len(e.message) for _, e in ring.read("a").events] == []  # 32 kB are more than this ring has
    kept = EventRing()
    kept.handle(logging.makeLogRecord({"name": "x", "msg": "y" * 1_000_000, "connector": "a", "levelno": 20}))
    assert [len(e.message) for _, e in kept.read("a").events] == [32 << 10]


def test_traces_and_messages_are_separate_and_show_no_secret(ring: EventRing) -> None:
    release = hold(["hunter22-hunter"])
    try:
        raise ValueError("with hunter22-hunter")
    except ValueError:
        log.exception("failed for hunter22-hunter", extra=fields_of("a"))
    say("a", "of a slot: hunter22-hunter\nTraceback (most recent call last):\n  hunter22-hunter")
    release()
    (_, own), (_, slots) = ring.read("a").events
    assert (own.message, slots.message) == ("failed for [hidden]", "of a slot: [hidden]")
    assert own.exception is not None
    assert own.exception.endswith("ValueError: with [hidden]")
    assert slots.exception == "Traceback (most recent call last):\n  [hidden]"


def test_wait_for_events_ends_with_the_first_one_of_the_connector(ring: EventRing) -> None:
    is_waiting, has_ended = threading.Event(), threading.Event()

    def wait() -> None:
        is_waiting.set()
        ring.wait("a", 0, 60)
        has_ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert is_waiting.wait(30)
    say("b", "another")
    assert not has_ended.is_set()
    say("a", "1")
    assert has_ended.wait(30)


def test_answers_of_secret_stores_are_not_kept(ring: EventRing) -> None:
    store = logging.getLogger("hvac.adapters")
    store.setLevel(logging.DEBUG)
    store.addHandler(ring)
    try:
        with about("a"):
            store.debug("answer: geheim, which nobody has read yet")
            store.info("asked")
    finally:
        store.removeHandler(ring)
        store.setLevel(logging.NOTSET)
    assert [event.message for _, event in ring.read("a").events] == ["asked"]


def test_deleted_connector_is_forgotten_once_silent(ring: EventRing) -> None:
    say("gone", "1", "2")
    say("here", "1")
    ring.forget_all_but({"here"})
    assert texts(ring, "gone") == ["1", "2"]  # its last events can still be read
    ring.forget_all_but({"here"}, kept_s=0)
    assert texts(ring, "gone") == []
    assert texts(ring, "here") == ["1"]


def test_old_cursor_finds_events_of_a_recreated_connector(ring: EventRing) -> None:
    say("a", "1", "2", "3")
    before = ring.read("a", 0)
    ring.forget_all_but((), kept_s=0)
    assert ring.read("a", before.next).events == []
    say("a", "4")
    found = ring.read("a", before.next)
    assert ([event.message for _, event in found.events], found.dropped) == (["4"], 0)
    say("a", *("x" * 1_000 for _ in range(20)))
    assert ring.read("a", before.next).dropped > 0


def test_forgotten_events_leave_room(ring: EventRing) -> None:
    for n in range(50):
        say(f"gone-{n}", "x" * 1_000)
        ring.forget_all_but(("kept",), kept_s=0)
        if n == 0:
            say("kept", *(f"{k:02}" + "x" * 998 for k in range(9)))
    assert texts(ring, "kept") == [f"{k:02}" for k in range(9)]
