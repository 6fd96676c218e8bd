"""What `fencepost top` makes of two answers."""

from typing import Any

from fencepost.cli.connector.live import Order, cells, ordered, tasks_of


def answer(**tasks: dict[str, Any]) -> dict[str, Any]:
    """Return connectors with a task each, RUNNING unless `state` says otherwise."""
    return {
        name: {
            "status": {"tasks": [{"id": 0, "state": figures.pop("state", "RUNNING"), "worker_id": "w:1"}]},
            "figures": {"tasks": [{"id": 0, "kind": "source", "started_ms": 1, **figures}]},
        }
        for name, figures in tasks.items()
    }


def test_rate_is_the_difference_of_two_totals_since_the_same_task_start() -> None:
    before = answer(a={"records_read_total": 100}, b={"records_read_total": 100}, c={})
    now = answer(
        a={"records_read_total": 300}, b={"records_read_total": 5, "started_ms": 2}, c={"records_read_total": 9}
    )
    assert [task.rate for task in tasks_of(now, before, 2.0, 0)] == [100.0, None, None]


def test_top_shows_only_states_for_kafka_connect_workers() -> None:
    status = {"tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "x"}]}
    (task,) = tasks_of({"a": {"status": status}}, {}, 1.0, 0)
    assert cells(task) == ("a", "0", "FAILED", "w:1", *["-"] * 7)
    assert task.as_data() == {
        "connector": "a", "task": 0, "state": "FAILED", "worker_id": "w:1", "records_per_second": None
    }  # fmt: skip


def test_top_shows_no_figures_for_tasks_of_an_unreachable_worker() -> None:
    (task,) = tasks_of(answer(a={"kind": None, "slot": None}), {}, 1.0, 0)
    assert cells(task)[4:] == ("-",) * 7


def test_top_row_shows_ages_and_the_memory_of_the_slot() -> None:
    slot = {"id": "s1", "pid": 7, "resident_bytes": 100 << 20, "host_resident_bytes": 50 << 20}
    figures = {"last_record_ms": 0, "open_records": 1234, "open_since_ms": 9_900_000, "errors_total": 2, "slot": slot}
    (task,) = tasks_of(answer(a={**figures, "lag_max": 5, "stands_still": True}), {}, 1.0, 10_000_000)
    shown = ("STANDS STILL", "w:1", "-", "5", "3 h", "1,234", "100 s", "2", "s1 150 MB")
    assert cells(task) == ("a", "0", *shown)


def test_top_lists_troubled_tasks_first_and_filters_by_name_pattern() -> None:
    now = answer(
        a={"lag_max": 1},
        b={"state": "FAILED"},
        c={"stands_still": True, "lag_max": 7},
        d={"lag_max": 3},
        e={"retrying": True},
        other={},
    )
    tasks = tasks_of(now, {}, 1.0, 0, "?")
    assert [task.connector for task in ordered(tasks, Order.STATE)] == ["b", "c", "e", "a", "d"]
    assert [task.connector for task in ordered(tasks, Order.LAG)] == ["c", "d", "a", "b", "e"]
    assert [task.connector for task in ordered(tasks, Order.NAME)] == ["a", "b", "c", "d", "e"]
