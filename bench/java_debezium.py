"""Debezium's source for Postgres, here and on Kafka Connect: its snapshot, its stream, and how soon it is back."""

import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.background import Background
from bench.moving import Run, Runs, made_topic, moved, rows
from bench.options import Options, say
from bench.postgres import DEBEZIUM, Postgres, debezium, running_postgres
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.tail import Tail, anomalies
from bench.watch import last_value
from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_RATES = {"snapshot": "Debezium's snapshot of a table of Postgres", "stream": "Debezium's stream of inserted rows"}
_CASES = (*_RATES, "kill")
_A_TRANSACTION = 100
_PER_S = 50
_STEADY_S = (1.0, 2.0)
_DEAD_S = 0.25
"""What is seen up to here after a kill was committed before it."""
_PATIENCE_S = 300.0
_SEED = 6

_PREPARATION = f"""
create procedure fill(target text, first int, total int) language plpgsql as $$
begin
  for start in first .. first + total - 1 by {_A_TRANSACTION} loop
    execute format('insert into %I select * from made(%s, least(%s, %s))',
                   target, start, start + {_A_TRANSACTION - 1}, first + total - 1);
    commit;
  end loop;
end $$;
create function made(first int, last int)
  returns table (id int, customer text, article text, quantity int, price float8, at timestamptz)
  language sql as $$
  select n, 'customer-' || n % 5000, 'article-' || n % 300, n % 90 + 1, n % 10000 / 100.0,
         timestamptz '2026-01-01' + n * interval '1 second'
  from generate_series(first, last) as n
$$;
"""


def run(options: Options) -> Result:
    """Run the cases, alternating between the sides."""
    count = options.size(2_000_000, 200_000)
    cases = [case for case in _CASES if not options.cases or case in options.cases]
    runs: Runs = {}
    kills: dict[str, list[float]] = {side: [] for side in SIDES}
    wrong: dict[str, list[float]] = {side: [] for side in SIDES}
    with options.directory() as directory, EmbeddedKafka() as kafka, server(_PREPARATION) as postgres:
        plugins = directory / "plugins"
        debezium(plugins)
        for turn in options.turns_of(3):
            for name in options.sides(turn):
                settings = {"plugin.path": str(plugins), **(options.ours if name == "fencepost" else {})}
                with SIDES[name](kafka.bootstrap_servers, directory, settings) as side:
                    race = _Race(side, kafka, postgres, count)
                    if {*cases} & {*_RATES}:
                        race.moves("warm", count // 4)
                        for case, done in race.moves("run", count).items():
                            runs.setdefault((case, name), []).append(done)
                            say(f"{case:8} {name:10} {done.rate:11,.0f} records/s  {dict(done.detail)}")
                    if "kill" in cases:
                        times = options.rounds or ((2 if options.is_quick else 5) if name == "fencepost" else 1)
                        kills[name] += race.kills(times, random.Random(_SEED + turn))
                        wrong[name].append(race.wrong)
    result = Result("java_debezium", "Debezium", _method(count), _settings())
    result.rows = rows(_RATES, runs, rate="1 × or more", processor="1 × or less")
    what = "kill -9 of the only worker and all below it, restarted at once → next change visible"
    result.rows.append(Row(what, "s", kills, ("p50", "max"), reach="10 s every time"))
    result.rows.append(Row("changes lost, double or out of order, in one turn", "", wrong, ("max",), reach="0"))
    return result


class _Race:
    """A worker, and what Debezium does in it."""

    def __init__(self, side: Side, kafka: EmbeddedKafka, postgres: Postgres, count: int) -> None:
        self._side = side
        self._kafka = kafka
        self._postgres = postgres
        self._count = count
        self.wrong = 0

    def moves(self, label: str, count: int) -> dict[str, Run]:
        """1. Snapshot a table. 2. Stream half as many rows that are inserted."""
        name = f"{self._side.group}_{label}".replace("-", "_")
        streamed = count // 2
        self._postgres.sql(f"create table {name} as select * from made(1, {count})")
        self._postgres.sql(f"alter table {name} add primary key (id)")
        with self._connector(name) as topic:
            snapshot = moved(self._side, self._kafka, topic, count, lambda: self._create(name))  # 1
            self._check(topic, count)
            insert = f"call fill('{name}', {count + 1}, {streamed})"
            stream = moved(self._side, self._kafka, topic, streamed, lambda: self._postgres.sql(insert))  # 2
            self._check(topic, count + streamed)
        return {"snapshot": snapshot, "stream": stream}

    def kills(self, times: int, moments: random.Random) -> list[float]:
        """Kill the worker time after time, while rows are inserted: how long until the next change."""
        side, taken = self._side, list[float]()
        name = f"{side.group}_kill".replace("-", "_")
        self._postgres.sql(f"create table {name} as select * from made(0, 0)")
        self._postgres.sql(f"alter table {name} add primary key (id)")
        with self._connector(name) as topic, Tail(self._kafka.bootstrap_servers, topic, number=row_id) as tail:
            self._create(name)
            tail.wait_for(0, _PATIENCE_S)
            with self._postgres.session() as session, _Inserting(session, name) as inserting:
                tail.wait_for(1, _PATIENCE_S)  # it streams
                for _ in range(times):
                    time.sleep(moments.uniform(*_STEADY_S))
                    at_s = time.monotonic()
                    side.kill()
                    side.start(is_waiting=False)
                    taken.append(tail.next_after(at_s + _DEAD_S, _PATIENCE_S).at_s - at_s)
                    say(f"kill     {side.name:10} {taken[-1]:.2f} s")
                    tail.wait_for(inserting.count - _PER_S, _PATIENCE_S)
            tail.wait_for(inserting.count - 1, _PATIENCE_S)
            self.wrong = anomalies(tail.seen)
            eventually(lambda: side.is_running(name, 1), within_s=_PATIENCE_S)
        return taken

    @contextmanager
    def _connector(self, name: str) -> Iterator[str]:
        """Yield a topic for a connector, which is deleted at the end with its replication slot."""
        yield made_topic(self._kafka, f"{name}.public.{name}")
        self._side.delete(name)
        active = f"select count(*) from pg_replication_slots where slot_name = '{name}' and active"
        eventually(lambda: self._postgres.sql(active).strip() == "0", within_s=_PATIENCE_S)
        self._postgres.sql(f"select pg_drop_replication_slot('{name}')")
        self._postgres.sql(f"drop table {name}")

    def _create(self, name: str) -> None:
        self._side.create(name, config(self._postgres, name, name))

    def _check(self, topic: str, count: int) -> None:
        last = last_value(self._kafka.bootstrap_servers, topic)
        if last is None or row_id(last) != count:
            raise ValueError(f"{topic} ends with {last!r}, not with row {count}")


class _Inserting(Background):
    """Inserts rows from number 1 on, in a thread; a context manager."""

    def __init__(self, session: IO[str], table: str) -> None:
        super().__init__()
        self.count = 1
        self._session = session
        self._table = table

    def _run(self) -> None:
        while not self._stop.wait(1 / _PER_S):
            self._session.write(f"insert into {self._table} select * from made({self.count}, {self.count});\n")
            self._session.flush()
            self.count += 1


def config(postgres: Postgres, name: str, table: str) -> dict[str, str]:
    """Debezium's connector for a table, as topic prefix, slot and publication of a name; JSON without schemas."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "postgres",
        "database.password": "nothing",
        "database.dbname": "postgres",
        "topic.prefix": name,
        "table.include.list": f"public.{table}",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }


def row_id(value: bytes) -> int:
    """The number of the row that a change is about."""
    return int(json.loads(value)["after"]["id"])


@contextmanager
def server(preparation: str) -> Iterator[Postgres]:
    """Yield a server in a directory of its own: its user cannot enter that of the bench."""
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-bench-", ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as postgres,
    ):
        postgres.sql(preparation)
        yield postgres


def _settings() -> dict[str, dict[str, str]]:
    return {f"Debezium {DEBEZIUM}": dict.fromkeys(SIDES, "exactly-once, JsonConverter without schemas, defaults")}


def _method(count: int) -> list[str]:
    return [
        f"Debezium {DEBEZIUM} for Postgres takes the snapshot of a table of {count:,} rows of six columns, and then "
        f"streams half as many rows, which are inserted {_A_TRANSACTION} in a transaction. Before that, a worker does "
        "the same with a quarter of the rows as a warm-up. The rate is all records, by the time from the first one in "
        "the log until all are committed; then the last record must be the last row.",
        f"For the kills, {_PER_S} rows a second are inserted, each in a transaction. At a random moment (seeds from "
        f"{_SEED}) SIGKILL goes to the worker and everything below it, which is started again at once with the same "
        "file. The time is from the signal to the next change that a read_committed consumer is given.",
    ]
