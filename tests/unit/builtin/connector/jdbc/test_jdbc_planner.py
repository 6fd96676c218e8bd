"""Ranges of a table into which transactions write in any order: each row is in one range, read once."""

import random
import sqlite3
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest

from fencepost.api import ConfigError, Split
from fencepost.builtin.connector.jdbc import planner as module
from fencepost.builtin.connector.jdbc.database import Column, Dialect
from fencepost.builtin.connector.jdbc.planner import Planner
from fencepost.builtin.connector.jdbc.settings import Relation
from fencepost.builtin.connector.jdbc.source import JdbcSource
from support.seed import new_seed

RUNS, STEPS, MOST_ROWS = 8, 80, 3
EPOCH_S = 1_764_000_000
LONGEST_S = 20.0
"""How long a transaction lasts at most."""
TABLE = Relation({"table": "orders"}, '"orders"', "t-orders")
MODES = ("incrementing", "timestamp", "timestamp+incrementing")


def planner_of(**settings: object) -> Planner:
    given = {"connection.url": "jdbc:sqlite:/orders", "topic.prefix": "t-", "split.rows.max": MOST_ROWS}
    columns = {"incrementing.column.name": "id", "timestamp.column.name": "at"}
    source = JdbcSource({**given, **columns, **{k.replace("_", "."): str(v) for k, v in settings.items()}})
    return Planner(source, "UTC", 1000)


class World:
    """A database with transactions that overlap, and a reader of its table. Timestamps are whole seconds, so they tie.

    `shows_transactions`: the planner may see them, and they last as long as they like.
    """

    dialect = Dialect("x", is_sqlite=True)

    def __init__(self, chance: random.Random, settings: Mapping[str, object], *, shows_transactions: bool) -> None:
        self.chance = chance
        self.settings = settings
        self.shows_transactions = shows_transactions
        self.clock_s = float(EPOCH_S)
        self.next_id = 1
        self.open: dict[str, tuple[float, list[tuple[int, str]]]] = {}
        self.committed: list[int] = []
        self.read: list[int] = []
        self.place: Any = None
        self.planned: list[Split] = []
        self.planner = planner_of(**settings)
        self.table = sqlite3.connect(":memory:")
        self.table.execute('CREATE TABLE "orders" (id INTEGER PRIMARY KEY, at TEXT NOT NULL)')

    # what the planner asks a database

    def quoted(self, name: str) -> str:
        return f'"{name}"'

    def columns(self, relation: str) -> list[Column]:
        return [Column("id", False, False, False, True), Column("at", False, False, False, False)]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.table.execute(query).fetchall()

    def now_s(self, otherwise_s: float) -> Any:
        return Decimal(str(self.clock_s))

    def open_transactions(self) -> frozenset[str] | None:
        return frozenset(self.open) if self.shows_transactions else None

    # what happens

    def text(self, at_s: float) -> str:
        return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%d %H:%M:%S")

    def begin(self) -> None:
        self.open[f"{self.clock_s}-{self.chance.random()}"] = (self.clock_s, [])

    def insert(self) -> None:
        if self.open:
            began_s, rows = self.open[self.chance.choice(sorted(self.open))]
            rows.append((self.next_id, self.text(self.chance.choice([began_s, self.clock_s]))))
            self.next_id += 1

    def end(self, name: str | None = None, *, commits: bool | None = None) -> None:
        if self.open:
            _, rows = self.open.pop(name or self.chance.choice(sorted(self.open)))
            if self.chance.random() < 0.8 if commits is None else commits:
                self.table.executemany('INSERT INTO "orders" VALUES (?, ?)', rows)
                self.committed += [number for number, _ in rows]

    def pass_time(self) -> None:
        step_s = self.chance.choice([0.01, 0.4, 1.3, 6.0])
        for name, (began_s, _) in sorted(self.open.items()):
            if not self.shows_transactions and self.clock_s + step_s - began_s >= LONGEST_S:
                self.end(name)
        self.clock_s += step_s

    def restart(self) -> None:
        self.planner, self.planned = planner_of(**self.settings), []

    def plan(self) -> None:
        self.planned = self.planner.splits(cast(Any, self), TABLE, self.place)

    def read_next(self) -> None:
        if self.planned:
            split = self.planned.pop(0)
            assert split.after == self.place
            hint = split.hint
            order = ", ".join([*hint["times"], *([hint["id"]] if hint["id"] else [])])
            self.read += [
                n for (n,) in self.rows(f'SELECT id FROM "orders" WHERE {hint["condition"]} ORDER BY {order}')
            ]
            self.place = split.offset

    def finish(self) -> None:
        while self.open:
            self.end(commits=True)
        for _ in range(4):  # each sight of a restarted planner needs a second one, later
            self.clock_s += LONGEST_S + 2
            self.plan()
            while self.planned:
                self.read_next()
                if not self.planned:
                    self.plan()


def run(seed: int, monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, object], *, shows: bool) -> World:
    world = World(random.Random(seed), settings, shows_transactions=shows)

    class Clock:
        monotonic = staticmethod(lambda: world.clock_s)
        time = staticmethod(lambda: world.clock_s)

    monkeypatch.setattr(module, "time", Clock)
    actions: list[Callable[[], None]] = [
        world.begin, world.insert, world.insert, world.insert, world.end, world.pass_time, world.plan, world.read_next,
        world.read_next,
    ]  # fmt: skip
    for _ in range(STEPS):
        if world.chance.random() < 0.02:
            world.restart()
        world.chance.choice(actions)()
    world.finish()
    return world


@pytest.mark.parametrize("mode", MODES)
def test_each_row_is_read_once_when_open_transactions_are_known(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_seed()
    for seed in range(first, first + RUNS):
        world = run(seed, monkeypatch, {"mode": mode}, shows=True)
        assert sorted(world.read) == sorted(world.committed), f"seed {seed}"
        assert mode != "incrementing" or world.read == sorted(world.read), f"seed {seed}"


def _delays(seconds: float) -> dict[str, object]:
    return {key: int(seconds * 1000) for key in ("timestamp_delay_interval_ms", "incrementing_delay_interval_ms")}


@pytest.mark.parametrize("mode", MODES)
def test_each_row_is_read_once_when_the_delay_covers_transactions(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_seed()
    for seed in range(first, first + RUNS):
        world = run(seed, monkeypatch, {"mode": mode, **_delays(LONGEST_S)}, shows=False)
        assert sorted(world.read) == sorted(world.committed), f"seed {seed}"


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_lost_when_transactions_outlast_the_delay(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would find a fault."""
    first = new_seed()
    worlds = (run(seed, monkeypatch, {"mode": mode, **_delays(0)}, shows=False) for seed in range(first, first + 200))
    assert any(set(world.committed) - set(world.read) for world in worlds)


def world_of(**settings: object) -> World:
    return World(random.Random(0), settings, shows_transactions=True)


def test_ids_without_a_gap_are_read_while_a_transaction_is_open() -> None:
    world = world_of(mode="incrementing")
    world.table.execute("INSERT INTO orders VALUES (1, 'x')")
    world.plan()
    world.read_next()
    world.begin()  # it may have an id already, or not
    world.table.executemany("INSERT INTO orders VALUES (?, 'x')", [(2,), (3,), (5,)])
    world.plan()
    assert [split.offset for split in world.planned] == [{"incrementing": 3}]
    world.read_next()
    world.end(commits=False)
    world.plan()
    assert [split.offset for split in world.planned] == [{"incrementing": 5}]


def test_rows_of_one_timestamp_stay_in_one_range() -> None:
    world = world_of(mode="timestamp")
    world.table.executemany("INSERT INTO orders VALUES (?, ?)", [(n, world.text(EPOCH_S)) for n in range(9)])
    world.table.execute("INSERT INTO orders VALUES (10, ?)", [world.text(EPOCH_S + 1)])
    world.clock_s += 60
    world.plan()
    assert [split.offset for split in world.planned] == [
        {"timestamp": world.text(EPOCH_S)},
        {"timestamp": world.text(EPOCH_S + 1)},
    ]


def test_ids_cut_the_rows_of_one_timestamp_into_ranges() -> None:
    world = world_of(mode="timestamp+incrementing")
    world.table.executemany("INSERT INTO orders VALUES (?, ?)", [(n, world.text(EPOCH_S)) for n in range(1, 8)])
    world.clock_s += 60
    world.plan()
    assert [(split.offset or {})["incrementing"] for split in world.planned] == [3, 6, 7]
    while world.planned:
        world.read_next()
    assert world.read == [1, 2, 3, 4, 5, 6, 7]


def test_initial_timestamp_is_committed_before_any_row() -> None:
    world = world_of(mode="timestamp", timestamp_initial=-1)
    world.table.execute("INSERT INTO orders VALUES (1, ?)", [world.text(EPOCH_S - 5)])
    world.plan()
    (split,) = world.planned
    assert (split.after, split.size_bytes) == (None, 0)
    assert split.offset == {"timestamp": f"{world.text(EPOCH_S)}.000000"}
    world.read_next()
    world.table.execute("INSERT INTO orders VALUES (2, ?)", [world.text(EPOCH_S + 5)])
    world.clock_s += 60
    world.plan()
    world.read_next()
    assert world.read == [2]


def test_bulk_load_is_planned_again_after_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now_s[0])
    world = world_of(mode="bulk")
    world.plan()
    (split,) = world.planned
    assert (split.after, split.offset) == (None, {"load": 1, "at": 1_000_000})
    world.place = split.offset
    world.plan()
    assert world.planned == []
    now_s[0] += 1
    world.plan()
    assert [(each.after, each.offset) for each in world.planned] == [(world.place, {"load": 2, "at": 1_001_000})]


@pytest.mark.parametrize(
    ("mode", "place"),
    [
        ("incrementing", {"timestamp": "2026-11-29 19:00:00"}),
        ("incrementing", {"incrementing": "5"}),
        ("incrementing", {}),
        ("timestamp", {"timestamp": "2026-11-29 19:00:00", "incrementing": 5}),
        ("timestamp", {"timestamp": "' OR 1 = 1 --"}),
        ("timestamp+incrementing", {"incrementing": 5}),
        ("timestamp+incrementing", {"timestamp": "2026-11-29 19:00:00", "incrementing": True}),
        ("bulk", {"incrementing": 5}),
        ("bulk", {"load": 1}),
    ],
)
def test_place_of_another_mode_is_refused(mode: str, place: dict[str, Any]) -> None:
    world = world_of(mode=mode)
    world.place = place
    with pytest.raises(ConfigError, match="Restore the mode, or set the offset"):
        world.plan()


def test_columns_that_may_be_null_are_refused_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(mode="timestamp")
    nullable = [Column("at", False, False, True, False)]
    monkeypatch.setattr(world, "columns", lambda relation: nullable)
    with pytest.raises(ConfigError, match=r"timestamp\.column\.name=at: .* validate\.non\.null=false"):
        world.plan()
    world.planner = planner_of(mode="timestamp", validate_non_null="false")
    world.plan()
    assert world.planned == []


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"mode": "incrementing", "incrementing_column_name": "nr"}, "incrementing.column.name=nr"),
        ({"mode": "timestamp", "timestamp_column_name": "when"}, "timestamp.column.name=when"),
    ],
)
def test_missing_column_is_named_with_its_table(settings: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: orders has no such column"):
        world_of(**settings).plan()


def test_timestamp_that_is_a_number_is_refused() -> None:
    world = world_of(mode="timestamp")
    world.table.execute("INSERT INTO orders VALUES (1, 1764000000000)")
    with pytest.raises(ConfigError, match="orders has a row at"):
        world.plan()
