"""Datagen: the same rows for the same numbers, each once."""

import datetime as dt
from typing import Any

import pytest

from fencepost.api import ConfigError
from fencepost.builtin.connector.generator import DatagenConnector, DatagenTask, Fields
from support.task_context import Context, Offsets


def connector(**more: object) -> DatagenConnector:
    return DatagenConnector({"topic": "rows", "rows.per.second": "0", "batch.size": "7", **more})


def started(config: dict[str, str], committed: Offsets | None = None) -> DatagenTask:
    task = DatagenTask()
    task.initialize(Context(committed), DatagenConnector(config))
    task.start()
    return task


def rows_of(task: DatagenTask, polls: int) -> list[dict[str, Any]]:
    batches = [task.poll() for _ in range(polls)]
    return [value for batch in batches if batch is not None for value in batch.values]


def test_datagen_row_depends_only_on_seed_and_row_number() -> None:
    specs = ["id:sequence", "word:word", "price:double(1..100)", "n:int(-5..5)", "u:uuid", "b:boolean", "at:timestamp"]
    one, other = Fields(specs, 4), Fields(specs, 4)
    assert [one.row(n) for n in (3, 1, 2)] == [other.row(n) for n in (3, 1, 2)]
    assert one.row(5) != Fields(specs, 5).row(5)
    row = one.row(9)
    assert row["id"] == 9
    assert 1 <= row["price"] <= 100
    assert -5 <= row["n"] <= 5
    assert row["at"] == dt.datetime(2020, 1, 1, 0, 0, 9, tzinfo=dt.UTC)
    assert [field.name for field in one.schema.fields] == ["id", "word", "price", "n", "u", "b", "at"]


def test_datagen_values_are_spread_over_their_range() -> None:
    fields = Fields(["n:int(0..9)", "w:word"], 0)
    rows = [fields.row(n) for n in range(2000)]
    assert all(150 < sum(row["n"] == digit for row in rows) < 250 for digit in range(10))
    assert len({row["w"] for row in rows}) > 70


def test_datagen_tasks_divide_the_rows() -> None:
    configs = connector(**{"max.rows": "50"}).task_configs(3)
    ids = [row["id"] for config in configs for row in rows_of(started(config), 20)]
    assert sorted(ids) == list(range(50))


def test_datagen_resumes_after_the_committed_row() -> None:
    [config] = connector().task_configs(1)
    batch = started(config, [({"task": 0, "tasks": 1}, {"row": 9})]).poll()
    assert batch is not None
    assert [row["id"] for row in batch.values] == list(range(10, 17))
    assert batch.last_offsets() == [({"task": 0, "tasks": 1}, {"row": 16})]


def test_datagen_sends_each_row_once_when_the_task_count_changes() -> None:
    committed: dict[tuple[int, int], dict[str, Any]] = {}
    sent: list[int] = []
    for count, polls in ((2, 1), (3, 2), (1, 1), (2, 2), (3, 40)):
        for config in connector(**{"max.rows": "200"}).task_configs(count):
            offsets = [({"task": t, "tasks": c}, offset) for (t, c), offset in committed.items()]
            task = started(config, offsets)
            for _ in range(polls + int(config["task.index"])):
                batch = task.poll()
                if batch is not None:
                    sent += [row["id"] for row in batch.values]
                    [(partition, offset)] = batch.last_offsets()
                    committed[partition["task"], partition["tasks"]] = dict(offset or {})
    assert sorted(sent) == list(range(200))


def test_datagen_waits_without_records_after_the_last_row() -> None:
    [config] = connector(**{"max.rows": "3"}).task_configs(1)
    task = started(config)
    assert len(rows_of(task, 1)) == 3
    assert task.poll() is None
    assert task.context.waits == [1.0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("id", "id is not name:kind"),
        ("id:nothing", "id:nothing is not name:kind with a kind of sequence"),
        ("p:double(5..1)", "first bound is above"),
        ("w:word(1..2)", "word takes no bounds"),
        ("a:word,a:word", "a occurs twice"),
        ("", "at least one field"),
    ],
)
def test_datagen_names_a_wrong_field_spec(fields: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"Invalid value .* for configuration fields: ") as caught:
        connector(fields=fields)
    assert text in str(caught.value)
