"""Postgres into Kafka: PostgresSource here, and Debezium on Kafka Connect, with the same config."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import psycopg
from confluent_kafka import Message

from bench.java_debezium import config, row_id, server
from bench.mirror_scene import check_whole
from bench.moving import Run, Runs, made_topic, moved, rows
from bench.options import Options, say
from bench.postgres import NEWEST_DEBEZIUM, Postgres, debezium
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.statistic import number, percentile
from bench.tail import ASK_EVERY_MS, Tail, anomalies
from bench.whole import Placed, placed_records, split_transactions
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually

_A_TRANSACTION = 100
_PER_S, _LATENCY_S, _WARM_S = 50, 40, 5
_TABLES = 8
_FOREIGN_A_MINUTE, _IDLE_S = 50_000, 90
_PATIENCE_S = 300.0
_MB = 1e6


@dataclass(frozen=True)
class Case:
    """What moves rows; `own` are the settings of each side, `share` is how many of the rows are moved."""

    name: str
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    share: float = 1.0


def _tasks(tasks: int, threads: int, **more: str) -> Mapping[str, Mapping[str, str]]:
    ours, theirs = {"tasks.max": str(tasks)}, {"snapshot.max.threads": str(threads)}
    return dict(zip(SIDES, (ours | more, theirs | more), strict=True))


SNAPSHOTS = {
    "one": Case("snapshot by one task, one thread", _tasks(1, 1)),
    "two": Case("snapshot by two tasks, four threads", _tasks(2, 4)),
    "schemas": Case(
        "snapshot by two tasks, four threads, JSON with schemas",
        _tasks(2, 4, **{"value.converter.schemas.enable": "true"}),
        0.25,
    ),
}
STREAMS = {
    "stream": Case(f"stream of {_A_TRANSACTION} rows a transaction", share=0.3),
    "off": Case(f"stream of {_A_TRANSACTION} rows a transaction, exactly-once off", share=0.3),
}
_CASES = (*SNAPSHOTS, *STREAMS, "transfers", "latency", "idle")

_PREPARATION = """
create function made(first int, last int)
  returns table (id int, customer text, article text, quantity int, price float8, at timestamptz, note text)
  language sql as $$
  select n, 'customer-' || n % 5000, 'article-' || n % 300, n % 90 + 1, n % 10000 / 100.0,
         timestamptz '2026-01-01' + n * interval '1 second', repeat(md5(n::text), 16)
  from generate_series(first, last) as n
$$;
create procedure fill(target text, first int, last int, size int) language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', false);
  for start in first .. last by size loop
    execute format('insert into %I select * from made(%s, least(%s, %s))', target, start, start + size - 1, last);
    commit;
  end loop;
end $$;
create procedure transfer(target text, first int, last int) language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', false);
  for n in first .. last loop
    for at in 0 .. TABLES - 1 loop
      if at in (n % TABLES, (n + 1 + n / TABLES % (TABLES - 1)) % TABLES) then
        execute format('insert into %I select * from made(%s, %s)', target || at, n, n);
      end if;
    end loop;
    commit;
  end loop;
end $$;
""".replace("TABLES", str(_TABLES))


@dataclass
class _Found:
    """What was measured, by side."""

    runs: Runs = field(default_factory=dict)
    waits_ms: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})
    retained_mb: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})
    split: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})

    def measure(self, race: "_Race", case: str, options: Options) -> None:
        side = race.side.name
        if case == "latency":
            self.waits_ms[side] += race.latency(5 if options.is_quick else _LATENCY_S)
        elif case == "transfers":
            self.split[side].append(race.transfers(options.size(100_000, 5_000)))
        elif case == "idle":
            self.retained_mb[side] += race.idle(20 if options.is_quick else _IDLE_S)
        else:
            done = race.snapshot(case, SNAPSHOTS[case]) if case in SNAPSHOTS else race.stream(case, STREAMS[case])
            self.runs.setdefault((case, side), []).append(done)
            say(f"{case:8} {side:10} {done.rate:11,.0f} records/s  {dict(done.detail)}")


def run(options: Options) -> Result:
    """Run the cases, alternating between the sides."""
    count = options.size(1_000_000, 100_000)
    cases = [case for case in _CASES if not options.cases or case in options.cases]
    found = _Found()
    with options.directory() as directory, EmbeddedKafka() as kafka, server(_PREPARATION) as postgres:
        plugins = directory / "plugins"
        debezium(plugins, NEWEST_DEBEZIUM)
        for turn in options.turns_of(1):
            for name in options.sides(turn):
                own = options.ours if name == "fencepost" else {}
                for guarantee, chosen in _by_guarantee(cases).items():
                    settings = {"plugin.path": str(plugins), "exactly.once.source.support": guarantee}
                    with SIDES[name](kafka.bootstrap_servers, directory, settings) as side:
                        race = _Race(side, kafka, postgres, count, own)
                        race.snapshot("warm", Case("", share=0.2))
                        for case in chosen:
                            found.measure(race, case, options)
    return Result("postgres_source", "Postgres source", _method(count), _settings(), _rows(found))


def _by_guarantee(cases: Sequence[str]) -> dict[str, list[str]]:
    """The cases of a worker with exactly-once enabled, and of one with it disabled; without those that have none."""
    found: dict[str, list[str]] = {}
    for case in cases:
        found.setdefault("disabled" if case == "off" else "enabled", []).append(case)
    return found


def _rows(found: _Found) -> list[Row]:
    idle = f"captured tables idle, {_FOREIGN_A_MINUTE:,} foreign rows a minute for {_IDLE_S} s: log kept for the slot"
    split = f"100,000 transfers over {_TABLES} tables: split over two Kafka transactions"
    return [
        *rows({key: case.name for key, case in SNAPSHOTS.items()}, found.runs, rate="3 × or more", processor=""),
        *rows({key: case.name for key, case in STREAMS.items()}, found.runs, "2 × or more", "0.5 × or less"),
        Row(
            f"{_PER_S} transactions a second: committed → visible",
            "ms",
            found.waits_ms,
            ("p50", "p99"),
            reach="20 / 80",
        ),
        Row(split, "transfers", found.split, reach="0"),
        Row(idle, "MB", found.retained_mb, ("p50", "max"), reach="16 or less"),
    ]


class _Race:
    """A worker, and what a connector for Postgres does in it."""

    def __init__(
        self, side: Side, kafka: EmbeddedKafka, postgres: Postgres, count: int, own: Mapping[str, str]
    ) -> None:
        self.side = side
        self._kafka = kafka
        self._postgres = postgres
        self._count = count
        self._own = own

    def snapshot(self, label: str, case: Case) -> Run:
        count = int(self._count * case.share)
        with self._table(label, count) as name, self._topic(name) as topic:
            done = self._moved(topic, count, lambda: self._create(name, case))
            self._check(topic, count)
            self._delete(name)
        return done

    def stream(self, label: str, case: Case) -> Run:
        """1. Take the snapshot of one row. 2. Stop. 3. Commit what is to be streamed. 4. Resume."""
        count = int(self._count * case.share)
        with self._table(label, 1) as name, self._topic(name) as topic:
            with Tail(self._kafka.bootstrap_servers, topic, number=row_id) as tail:
                self._create(name, case)  # 1
                tail.wait_for(0, _PATIENCE_S)
                self._postgres.sql(f"call fill('{name}', 1, 1, 1)")
                tail.wait_for(1, _PATIENCE_S)  # it streams
            self._put(name, "stop")  # 2
            eventually(lambda: self.side.status(name)["tasks"] == [], within_s=_PATIENCE_S)
            last = count + 1
            self._postgres.sql(f"call fill('{name}', 2, {last}, {_A_TRANSACTION})")  # 3
            done = self._moved(topic, count, lambda: self._put(name, "resume"))  # 4
            self._check(topic, last + 1)
            self._delete(name)
        return done

    def _moved(self, topic: str, count: int, begin: Callable[[], object]) -> Run:
        """Let rows be moved, and note what the database spends on it, too."""
        before_s = self._postgres.processor_s()
        done = moved(self.side, self._kafka, topic, count, begin)
        return replace(done, detail={**done.detail, "postgres": round(self._postgres.processor_s() - before_s, 2)})

    def transfers(self, count: int) -> int:
        """Commit transfers, each of a row in two of the tables: how many are split over two Kafka transactions."""
        name = f"{self.side.group}_transfers".replace("-", "_")
        topics = [f"{name}.public.{name}{each}" for each in range(_TABLES)]
        for each in range(_TABLES):
            self._postgres.sql(f"create table {name}{each} as select * from made(0, 0)")
            self._postgres.sql(f"alter table {name}{each} add primary key (id)")
        with ExitStack() as stack:
            for topic, each in zip(topics, range(_TABLES), strict=True):
                stack.enter_context(self._topic(f"{name}{each}", topic))
            with Tail(self._kafka.bootstrap_servers, topics[0], number=row_id) as tail:
                self._create(name, Case(""), "[0-9]")
                tail.wait_for(0, _PATIENCE_S)
                self._postgres.sql(f"call transfer('{name}', {_TABLES}, {2 * _TABLES - 1})")
                tail.wait_for(_TABLES, _PATIENCE_S)  # it streams
            self._put(name, "stop")
            eventually(lambda: self.side.status(name)["tasks"] == [], within_s=_PATIENCE_S)
            first = 2 * _TABLES
            self._postgres.sql(f"call transfer('{name}', {first}, {first + count - 1})")
            self._put(name, "resume")
            whole = eventually(lambda: self._transfers(topics, count), within_s=_PATIENCE_S, every_s=5)
            self._delete(name)
        for each in range(_TABLES):
            self._postgres.sql(f"drop table {name}{each}")
        split = len(split_transactions(whole))
        say(f"transfers {self.side.name:10} {split:,} of {count:,} are split over two Kafka transactions")
        return split

    def _transfers(self, topics: Sequence[str], count: int) -> Mapping[int, Sequence[Placed]]:
        """Return the records of each transfer; nothing if some are still to come. Raises ValueError: one is doubled."""
        whole: dict[int, list[Placed]] = {}
        for topic in topics:
            for placed in placed_records(self._kafka, topic):
                change = json.loads(placed.record.value or b"{}")
                if change and change["after"]["id"] >= 2 * _TABLES:
                    whole.setdefault(change["after"]["id"], []).append(placed)
        if any(len(records) > 2 for records in whole.values()):
            raise ValueError("a row of a transfer was written twice")
        return whole if len(whole) == count and all(len(records) == 2 for records in whole.values()) else {}

    def latency(self, seconds: int) -> list[float]:
        """Commit rows at a steady rate, each in a transaction: after how many milliseconds each is visible."""
        committed_s: dict[int, float] = {}
        last = _PER_S * seconds
        with (
            self._table("latency", 1) as name,
            self._topic(name) as topic,
            psycopg.connect(host="127.0.0.1", port=self._postgres.port, user="postgres", autocommit=True) as sql,
            Tail(self._kafka.bootstrap_servers, topic, number=row_id) as tail,
        ):
            self._create(name, Case(""))
            tail.wait_for(0, _PATIENCE_S)
            began_s = time.monotonic()
            for row in range(1, last + 1):
                time.sleep(max(0.0, began_s + row / _PER_S - time.monotonic()))
                sql.execute(f"insert into {name} select * from made({row}, {row})".encode())
                committed_s[row] = time.monotonic()
            tail.wait_for(last, _PATIENCE_S)
            if wrong := anomalies(tail.seen):
                raise ValueError(f"{wrong} changes are lost, double or out of order in {topic}")
            self._delete(name)
        seen = [each for each in tail.seen if each.number > _PER_S * min(_WARM_S, seconds // 2)]
        waits = [(each.at_s - committed_s[each.number]) * 1000 for each in seen]
        say(f"latency  {self.side.name:10} p50 {number(percentile(waits, 50))} p99 {number(percentile(waits, 99))} ms")
        return waits

    def idle(self, seconds: int) -> list[float]:
        """Write rows of another table: how much log the server keeps for the slot, each second."""
        with self._table("idle", 1) as name, self._topic(name) as topic:
            with Tail(self._kafka.bootstrap_servers, topic, number=row_id) as tail:
                self._create(name, Case(""))
                tail.wait_for(0, _PATIENCE_S)
                self._postgres.sql(f"call fill('{name}', 1, 1, 1)")
                tail.wait_for(1, _PATIENCE_S)  # it streams
            self._postgres.sql("create table foreign_rows as select * from made(0, 0)")
            kept = f"""select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)
                       from pg_replication_slots where slot_name = '{name}'"""
            found, began_s = list[float](), time.monotonic()
            for second in range(1, seconds + 1):
                self._postgres.sql(f"call fill('foreign_rows', 1, {_FOREIGN_A_MINUTE // 60}, 10)")
                time.sleep(max(0.0, began_s + second - time.monotonic()))
                found.append(float(self._postgres.sql(kept)) / _MB)
            self._postgres.sql("drop table foreign_rows")
            self._delete(name)
        say(f"idle     {self.side.name:10} {', '.join(f'{each:.1f}' for each in found)} MB")
        return found

    @contextmanager
    def _table(self, label: str, count: int) -> Iterator[str]:
        """Yield a table with so many rows, by the name that its connector, slot and publication have, too."""
        name = f"{self.side.group}_{label}".replace("-", "_")
        self._postgres.sql(f"create table {name} as select * from made(0, {count - 1})")
        self._postgres.sql(f"alter table {name} add primary key (id)")
        self._postgres.sql(f"vacuum analyze {name}")
        self._postgres.sql("checkpoint")
        yield name
        self._postgres.sql(f"drop table {name}")

    @contextmanager
    def _topic(self, name: str, topic: str = "") -> Iterator[str]:
        topic = made_topic(self._kafka, topic or f"{name}.public.{name}")
        yield topic
        Admin({"bootstrap.servers": self._kafka.bootstrap_servers}).topics.delete([topic])

    def _create(self, name: str, case: Case, tables: str = "") -> None:
        """Create a connector for the table of this name, or for all whose names end with what a pattern says."""
        own = case.own.get(self.side.name, {})
        settings = {**config(self._postgres, name, name + tables), **own}
        if self.side.name == "fencepost":
            settings |= {"connector.class": "PostgresSource", **self._own}
        self.side.create(name, settings)

    def _put(self, name: str, what: str) -> None:
        self.side.rest.put(f"/connectors/{name}/{what}").raise_for_status()

    def _delete(self, name: str) -> None:
        """Delete the connector, and then its slot."""
        self.side.delete(name)
        active = f"select count(*) from pg_replication_slots where slot_name = '{name}' and active"
        eventually(lambda: self._postgres.sql(active).strip() == "0", within_s=_PATIENCE_S)
        self._postgres.sql(f"select pg_drop_replication_slot('{name}')")
        self._postgres.sql(f"drop publication {name}")

    def _check(self, topic: str, count: int) -> None:
        check_whole(self._kafka.bootstrap_servers, topic, count, 1, _key_id)


def _key_id(message: Message) -> int:
    """The id in a key, which ends with it."""
    return int((message.key() or b"").rpartition(b":")[2].rstrip(b"}"))


def _settings() -> dict[str, dict[str, str]]:
    connector = dict(zip(SIDES, ("PostgresSource", f"Debezium {NEWEST_DEBEZIUM}"), strict=True))
    cases = {
        case.name: {side: ", ".join(f"{key}={value}" for key, value in own.items()) for side, own in case.own.items()}
        for case in SNAPSHOTS.values()
    }
    return {
        "connector": connector,
        **cases,
        "the rest": dict.fromkeys(SIDES, "JsonConverter without schemas, defaults"),
    }


def _method(count: int) -> list[str]:
    return [
        f"A table of {count:,} rows of about 600 bytes in seven columns (a quarter of them with schemas) is read by a "
        "new connector into a topic of one partition. Before that, a worker does the same with a fifth of the rows as "
        "a warm-up. The rate is all records, by the time from the first one in the log until all are committed; then "
        "each row must be there once.",
        f"Stream: a connector that streams is stopped, {int(count * 0.3):,} rows are committed, {_A_TRANSACTION} in a "
        "transaction, and it is resumed: the same rate, and the same check. Then both again with "
        "`exactly.once.source.support=disabled`: what whole transactions cost.",
        f"Transfers: {_TABLES} tables, each transaction inserts a row into two of them, after a stop as before. "
        "Whether both are in one Kafka transaction is judged from the segment files of the broker.",
        f"Latency: a row is inserted {_PER_S} times a second, each in a transaction, for {_LATENCY_S} s, of which the "
        f"first {_WARM_S} do not count. The time is from the server's answer until a read_committed consumer is given "
        f"the change; it asks the broker every {ASK_EVERY_MS} ms.",
        f"Idle tables: the captured table is quiet, while {_FOREIGN_A_MINUTE:,} rows a minute are inserted into "
        "another one. Each second the server is asked how much of its log it keeps for the slot (`restart_lsn`).",
        f"Debezium {NEWEST_DEBEZIUM} is the newest of which all jars could be fetched. Compare processor times before "
        "rates: `others` and `postgres` in the result file say what else the machine did meanwhile.",
    ]
