"""KIP-910, sentence by sentence, on the real broker: what `update_offsets` is given, and what becomes of its answer."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from lone_updating import UpdatingRun, at, record

from fencepost.api import SourceTask
from fencepost.embedded import EmbeddedKafka
from fencepost.task.source.runner import runs_ahead
from fencepost.testing import eventually
from support.chaos.wire import names
from support.proxy import Action, ApiKey, KafkaProxy
from support.smt import DROP

Start = Callable[..., UpdatingRun]

both_modes = pytest.mark.parametrize("is_exactly_once", [True, False], ids=["exactly once", "at least once"])


def once(update: dict[Any, Any]) -> Callable[[Mapping[Any, Any]], Any]:
    """Return `update` for the first time that something is about to be committed, then None."""
    left = [update]
    return lambda offsets: left.pop() if offsets and left else None


def always(update: Any) -> Callable[[Mapping[Any, Any]], Any]:
    return lambda offsets: update


# "The default implementation returns null which means there would not be any changes to the offsets."


@both_modes
def test_default_update_offsets_changes_no_offset(start: Start, is_exactly_once: bool) -> None:
    run = start([record("a", 1), record("b", 1), record("a", 2)], update=None, is_exactly_once=is_exactly_once)
    run.await_idle()
    run.stop()
    assert run.history() == [("b", {"line": 1}), ("a", {"line": 2})]


@both_modes
def test_update_offsets_returning_none_changes_no_offset(start: Start, is_exactly_once: bool) -> None:
    run = start([record("a", 1), record("b", 1)], update=always(None), is_exactly_once=is_exactly_once)
    run.await_idle()
    run.stop()
    assert run.history() == [("a", {"line": 1}), ("b", {"line": 1})]
    assert "update" in run.script.done


# "Source tasks can use this hook to update the offsets for any source partition."


@both_modes
def test_update_replaces_the_offset_that_is_about_to_be_committed(start: Start, is_exactly_once: bool) -> None:
    run = start([record("a", 1)], update=once({at("a"): {"line": 10}}), is_exactly_once=is_exactly_once)
    run.await_idle()
    run.stop()
    assert run.history() == [("a", {"line": 10})]
    assert run.values() == ["a1"]


@both_modes
def test_update_adds_an_offset_of_another_source_partition(start: Start, is_exactly_once: bool) -> None:
    run = start([record("a", 1)], update=once({at("idle"): {"line": 7}}), is_exactly_once=is_exactly_once)
    run.await_idle()
    run.stop()
    assert run.offsets() == {"a": {"line": 1}, "idle": {"line": 7}}


@both_modes
def test_offsets_are_updated_without_any_record(start: Start, is_exactly_once: bool) -> None:
    """This is the purpose of the KIP: a source without new records."""
    run = start(update=always({at("idle"): {"line": 7}}), is_exactly_once=is_exactly_once)
    eventually(lambda: run.stored() == {"idle": {"line": 7}})
    run.ensure_runs()
    assert run.values() == []


# "If the offset is set to a null value, a tombstone record would be written to the offsets topic."


@both_modes
def test_none_as_an_offset_writes_a_tombstone(start: Start, is_exactly_once: bool) -> None:
    first = start([record("a", 1), record("b", 1)], is_exactly_once=is_exactly_once)
    first.await_idle()
    first.stop()
    second = start([record("b", 2)], update=once({at("a"): None}), is_exactly_once=is_exactly_once)
    second.await_idle()
    second.stop()
    assert dict(second.history()[2:]) == {"b": {"line": 2}, "a": None}
    third = start()
    third.await_idle()
    assert third.script.offsets_at_start == [({"file": "b"}, {"line": 2})]


def test_tombstone_replaces_the_offset_that_is_about_to_be_committed(start: Start) -> None:
    run = start([record("a", 1)], update=once({at("a"): None}))
    run.await_idle()
    assert run.history() == [("a", None)]


def test_tombstone_is_written_for_a_source_partition_without_a_known_offset(start: Start) -> None:
    """Once: another task of the connector may have committed one since this one began."""
    run = start(update=always({at("other"): None}))
    run.await_idle(10)
    assert run.history() == [("other", None)]


# "If a source partition is dropped, it has no effect on the offsets committed."


@both_modes
def test_source_partition_left_out_of_the_update_keeps_its_offset(start: Start, is_exactly_once: bool) -> None:
    run = start(
        [record("a", 1), record("b", 1)],
        update=lambda offsets: {key: offset for key, offset in offsets.items() if key != at("a")},
        is_exactly_once=is_exactly_once,
    )
    run.await_idle()
    run.stop()
    assert run.offsets() == {"a": {"line": 1}, "b": {"line": 1}}


# "If a task returns an empty map, the behaviour would be disabled."


@both_modes
def test_empty_map_changes_no_offset(start: Start, is_exactly_once: bool) -> None:
    run = start([record("a", 1)], [record("a", 2)], update=always({}), is_exactly_once=is_exactly_once)
    run.await_idle()
    run.stop()
    assert run.history()[-1] == ("a", {"line": 2})
    assert run.values() == ["a1", "a2"]


def test_empty_map_leaves_later_updates_enabled(start: Start) -> None:
    answers = [{}, {at("idle"): {"line": 2}}]
    run = start([record("a", 1)], [record("a", 2)], update=lambda offsets: answers.pop(0) if answers else None)
    run.await_idle()
    assert run.history() == [("a", {"line": 1}), ("a", {"line": 2}), ("idle", {"line": 2})]


# "Tasks shouldn't modify the original about to be committed offsets map passed as an argument."


@both_modes
def test_argument_of_update_offsets_is_a_read_only_view(start: Start, is_exactly_once: bool) -> None:
    refused: list[str] = []

    def meddle(offsets: Any) -> None:
        for change in (
            lambda: offsets.__setitem__(at("x"), {"line": 1}),
            lambda: offsets.pop(at("a")),
            lambda: offsets[at("a")].__setitem__("line", 99),
            lambda: offsets[at("a")].clear(),
        ):
            try:
                change()
            except (TypeError, AttributeError) as error:
                refused.append(str(error))

    run = start([record("a", 1)], update=lambda o: meddle(o) if o else None, is_exactly_once=is_exactly_once)
    run.await_idle()
    run.stop()
    assert len(refused) == 4
    assert run.history() == [("a", {"line": 1})]


def test_argument_of_update_offsets_can_be_returned_or_copied(start: Start) -> None:
    run = start(
        [record("a", 1)], [record("a", 2)], update=lambda offsets: {**offsets, at("b"): {"line": 1}} if offsets else {}
    )
    run.await_idle()
    assert run.history() == [("a", {"line": 1}), ("b", {"line": 1}), ("a", {"line": 2})]


# "The offset from the latest source record amongst all source records per partition ... the latest offsets are the ones
# that are about to be committed and not the latest offsets returned from SourceTask::poll so far."


def test_argument_of_update_offsets_has_the_latest_offset_of_each_partition(start: Start) -> None:
    run = start([record("a", 1), record("b", 1), record("a", 2)], [record("b", 2)])
    run.await_idle()
    given = [g for g in run.script.given if g]
    assert given == [{at("a"): {"line": 2}, at("b"): {"line": 1}}, {at("b"): {"line": 2}}]


def test_argument_of_update_offsets_has_offsets_to_be_committed_not_polled_ones(start: Start) -> None:
    def poll(task: SourceTask) -> list[Any]:
        records = [record("a", n)(task.config.topic) for n in (1, 2, 3)]
        task.context.transaction.commit_transaction(records[0])  # type: ignore[union-attr]
        task.context.transaction.commit_transaction()  # type: ignore[union-attr]
        return records

    run = start(lambda task: poll(task), boundary="connector")
    run.await_idle()
    assert run.script.given == [{at("a"): {"line": 1}}, {at("a"): {"line": 3}}]


# "The updateOffsets method would be invoked just before an offset flush is attempted. ... The updated offsets would be
# part of the flush that would take place later on during transaction commit."


def test_updates_are_committed_with_the_records_or_not_at_all(start: Start, kafka: EmbeddedKafka) -> None:
    """E1"""
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        update = once({at("idle"): {"line": 7}, at("gone"): None})
        run = start([record("a", 1)], update=update, via=proxy.bootstrap_servers)
        end.await_met()
        assert run.log_end() == 3
        newer = start()  # fences the first, whose transaction is aborted
        newer.await_idle()
        assert (newer.values(), newer.history(), newer.script.offsets_at_start) == ([], [], [])
        run.abandon()
        end.discard()


def test_update_offsets_is_called_at_every_poll_with_poll_boundaries(start: Start) -> None:
    run = start([record("a", 1)], None, [record("a", 2)])
    run.await_idle(1)
    done = [d for d in run.script.done if not d.startswith(("record", "commit"))]
    assert done[:7] == ["poll 1", "update", "poll 0", "update", "poll 1", "update", "poll nothing"]


def test_update_offsets_is_called_after_the_interval_with_interval_boundaries(start: Start) -> None:
    run = start([record("a", 1)], [record("a", 2)], boundary="interval", boundary_interval_ms=3_600_000)
    run.await_idle()
    assert "update" not in run.script.done
    run.stop()
    assert run.script.given == [{at("a"): {"line": 2}}]
    due = start([record("a", 3)], boundary="interval", boundary_interval_ms=1)
    due.await_idle()
    assert {at("a"): {"line": 3}} in due.script.given


def test_update_offsets_is_called_before_the_commit_of_a_pause(start: Start) -> None:
    run = start([record("a", 1)], boundary="interval", boundary_interval_ms=3_600_000, update=once({at("b"): {"n": 1}}))
    run.await_idle()
    run.runner.control.pause()
    eventually(lambda: run.reports[-1].state == "PAUSED")
    assert run.offsets() == {"a": {"line": 1}, "b": {"n": 1}}


# "When the connector is configured to use a connector specified transaction boundary ... updateOffsets won't be
# invoked. In such cases, source tasks should occasionally request for a transaction commit via their transaction
# context."


def test_update_offsets_is_not_called_before_a_commit_with_connector_boundaries(start: Start) -> None:
    run = start([record("a", 1)], None, boundary="connector", update=always({at("idle"): {"line": 7}}))
    run.await_idle()
    run.stop()
    assert "update" not in run.script.done
    assert run.history() == []


def test_commit_without_records_can_be_requested_with_connector_boundaries(start: Start) -> None:
    def ask(task: SourceTask) -> None:
        task.context.transaction.commit_transaction()  # type: ignore[union-attr]

    run = start(ask, boundary="connector", update=always({at("idle"): {"line": 7}}))
    run.await_idle()
    assert run.history() == [("idle", {"line": 7})]


def test_update_offsets_applies_to_an_aborted_transaction(start: Start) -> None:
    def ask(task: SourceTask) -> list[Any]:
        task.context.transaction.abort_transaction()  # type: ignore[union-attr]
        return [record("a", 1)]

    run = start(ask, boundary="connector", update=once({at("b"): {"line": 1}}))
    run.await_idle()
    assert run.values() == []
    assert run.history() == [("a", {"line": 1}), ("b", {"line": 1})]


# "In this mode, updateOffsets would be invoked only if: the last poll invocation didn't return any records, or all the
# records returned by the previous poll invocation got processed successfully, or first iteration of task."


def test_at_least_once_update_offsets_is_called_after_an_empty_poll(start: Start) -> None:
    run = start(is_exactly_once=False, update=always({at("idle"): {"line": 7}}))
    run.await_done(lambda done: "update" in done)
    assert set(run.script.done[: run.script.done.index("update")]) == {"poll nothing"}


def test_at_least_once_update_offsets_is_called_when_all_records_are_processed(start: Start) -> None:
    run = start([record("a", 1), record("a", 2)], is_exactly_once=False, offset_flush_interval_ms=0)
    run.await_done(lambda done: "update" in done)
    assert run.script.done[:2] == ["poll 2", "update"]
    assert run.script.given[0] == {at("a"): {"line": 2}}


def test_at_least_once_update_offsets_is_called_in_the_first_iteration(start: Start) -> None:
    """A task that is paused before its first poll."""
    run = start(
        on_start=lambda run: run.runner.control.pause(),
        is_exactly_once=False,
        update=always({at("idle"): {"line": 7}}),
    )
    eventually(lambda: run.reports[-1].state == "PAUSED")
    assert run.script.done == ["update", "commit"]
    assert run.offsets() == {"idle": {"line": 7}}


def test_at_least_once_update_offsets_is_not_called_after_a_failed_record(start: Start) -> None:
    run = start([record("a", 1), record("a", 2, headers="broken")], is_exactly_once=False, offset_flush_interval_ms=0)
    assert run.trace
    assert "update" not in run.script.done
    assert run.history() == []


def test_at_least_once_update_offsets_is_called_only_when_a_flush_is_due(start: Start) -> None:
    run = start([record("a", 1)], is_exactly_once=False, offset_flush_interval_ms=3_600_000)
    run.await_idle(10)
    assert "update" not in run.script.done
    run.stop()
    assert run.script.done[-3:] == ["update", "record a1", "commit"]
    assert run.history() == [("a", {"line": 1})]


@pytest.mark.parametrize("is_asked", [True, False])
def test_at_least_once_offsets_are_committed_when_the_task_asks_for_it(start: Start, is_asked: bool) -> None:
    def polled(task: Any) -> list[Any]:
        if is_asked:
            task.context.request_commit()
        return [record("a", 1)]

    run = start(polled, is_exactly_once=False, offset_flush_interval_ms=3_600_000)
    run.await_idle(10)
    if is_asked:
        eventually(lambda: run.history() == [("a", {"line": 1})])
    else:
        assert run.history() == []


# "Considered acknowledged automatically so that whenever offset flush is about to happen, these offsets would get
# committed" - after earlier records of their partition. A slow topic next to a fast one: test_acknowledged_offsets.


@pytest.mark.parametrize("how", ["updated", "filtered"])
def test_at_least_once_no_offset_overtakes_an_unacknowledged_record(
    start: Start, kafka: EmbeddedKafka, how: str
) -> None:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        topic: list[str] = []
        held = proxy.on(ApiKey.PRODUCE, Action.HOLD, 1, lambda request: any(names(request, t) for t in topic))

        def poll(task: SourceTask) -> list[Any]:
            topic.append(task.config.topic)
            return [record("a", 1), *([record("a", 2, topic="drop")] if how == "filtered" else [])]

        run = start(
            lambda task: poll(task),
            is_exactly_once=False,
            offset_flush_timeout_ms=100,
            via=proxy.bootstrap_servers,
            config=DROP,
            update=always({at("a"): {"line": 2}} if how == "updated" else None),
        )
        held.await_met()
        run.await_done(lambda done: done.count("update") >= 3)
        assert all(given == {} for given in run.script.given)  # nothing is about to be committed
        assert (run.log_end(), run.values()) == (0, [])
        assert "commit" not in run.script.done
        held.release()
        eventually(lambda: run.stored() == {"a": {"line": 2}})
        run.ensure_runs()
        assert run.values() == ["a1"]
        run.await_done(lambda done: "commit" in done)


# "Unchanged offsets open no transaction."


@both_modes
def test_unchanged_offsets_are_not_written_again(start: Start, is_exactly_once: bool) -> None:
    """A task may return the same map each time, tombstones too, and reuse its own dicts."""
    update: dict[Any, Any] = {at("idle"): {"line": 7}, at("gone"): None}
    run = start(is_exactly_once=is_exactly_once, update=always(update))
    end = 3 if is_exactly_once else 2  # two offsets, and the marker of their transaction
    eventually(lambda: run.log_end() == end)
    run.await_idle()
    count = len(run.script.given)
    run.await_done(lambda done: len(run.script.given) >= count + 10)
    assert run.log_end() == end
    update[at("idle")]["line"] = 8
    eventually(lambda: run.stored() == {"idle": {"line": 8}})


def test_filtered_records_with_an_unchanged_offset_open_no_transaction(start: Start) -> None:
    beats = [[record("a", 1, topic="drop")] for _ in range(20)]
    run = start([record("a", 1)], *beats, config=DROP)
    run.await_idle()
    eventually(lambda: run.log_end() == 2)  # one offset and the end of its transaction; it never gets less
    assert run.script.done.count("record a1 not sent") == 20


# "Offsets of records that were filtered or dropped are recorded too."


@both_modes
def test_offsets_of_filtered_records_are_recorded(start: Start, is_exactly_once: bool) -> None:
    run = start(
        [record("a", 1), record("a", 2, topic="drop"), record("b", 9, topic="drop")],
        is_exactly_once=is_exactly_once,
        config=DROP,
    )
    run.await_idle()
    run.stop()
    assert run.offsets() == {"a": {"line": 2}, "b": {"line": 9}}
    assert run.values() == ["a1"]


@both_modes
@pytest.mark.parametrize("is_updating", [True, False], ids=["updating", "not updating"])
def test_offsets_of_dropped_records_are_recorded(start: Start, is_exactly_once: bool, is_updating: bool) -> None:
    run = start(
        [record("a", 1), record("a", 2, value=object())],
        [record("b", 3, value=object())],
        is_exactly_once=is_exactly_once,
        config={"errors.tolerance": "all", "value.converter": "org.apache.kafka.connect.json.JsonConverter"},
        update=always(None) if is_updating else None,
    )
    run.await_idle()
    run.stop()
    run.ensure_runs()
    assert run.offsets() == {"a": {"line": 2}, "b": {"line": 3}}
    assert len(run.values()) == 1


# Ours: what a task that updates offsets can rely on.


def test_a_task_that_updates_offsets_is_not_polled_ahead(start: Start) -> None:
    assert not runs_ahead(start().spec)
    assert runs_ahead(start(update=None).spec)


@both_modes
def test_invalid_update_fails_the_task_with_the_expected_return_type(start: Start, is_exactly_once: bool) -> None:
    run = start([record("a", 1)], update=always({"a": {"line": 2}}), is_exactly_once=is_exactly_once)
    assert "return None, or a mapping of source partitions" in run.trace
    if is_exactly_once:
        assert (run.values(), run.history()) == ([], [])


def test_an_error_in_update_offsets_fails_the_task_and_commits_nothing(start: Start) -> None:
    def broken(offsets: Any) -> None:
        raise ValueError("no idea")

    run = start([record("a", 1)], update=broken)
    assert "no idea" in run.trace
    assert (run.values(), run.history()) == ([], [])
