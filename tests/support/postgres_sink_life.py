"""One life of a Postgres sink's task in a process of its own, which is struck at a named point of its work."""

import json
import os
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from fencepost.api import INT32, FencedError, FencingToken, RetriableError, Schema, SinkRecord, TopicPartition
from fencepost.builtin.postgres.sink import task
from fencepost.builtin.postgres.sink.database import Database
from fencepost.testing import SinkRun, eventually

PARTITIONS, KEYS = 3, 6
FENCED = 3
"""The exit code of a process whose task was replaced."""
KILL, STOP, RESTART = "kill", "stop", "restart"
POINTS = (
    "connect", "claim", "claimed", "put", "taken", "begin", "begun", "half", "copied", "sent", "committed", "commit",
    "flushed",
)  # fmt: skip
"""Before and after: the claim, `put`, each step of a transaction, and the commit of the group's offsets."""
_ROW = Schema.struct({"id": INT32, "number": INT32})
_KEY = Schema.struct({"id": INT32})


def records(topic: str, seed: int, count: int) -> dict[TopicPartition, list[SinkRecord]]:
    """Return the log: number n is in partition n modulo their count, with one of the partition's keys."""
    drawn = random.Random(seed)
    log: dict[TopicPartition, list[SinkRecord]] = {TopicPartition(topic, n): [] for n in range(PARTITIONS)}
    for number in range(count):
        place = TopicPartition(topic, number % PARTITIONS)
        key = {"id": place.partition * KEYS + drawn.randrange(KEYS)}
        value = None if drawn.randrange(6) == 0 else {**key, "number": number}
        schema = None if value is None else _ROW
        log[place].append(SinkRecord(*place, len(log[place]), value, schema, key, _KEY, at=place))
    return log


class Fault:
    """Strikes this process when it is at a point for the n-th time."""

    def __init__(self, point: str, action: str, hits: int) -> None:
        self._point, self._action, self._hits = point, action, hits

    def at(self, point: str) -> None:
        if point == self._point:
            self._hits -= 1
            if self._hits == 0:
                os.kill(os.getpid(), signal.SIGKILL if self._action == KILL else signal.SIGSTOP)


def struck_database(fault: Fault) -> type[Database]:
    """Return the class of a database whose steps are points of the fault."""

    class StruckDatabase(Database):
        def connect(self) -> None:
            fault.at("connect")
            super().connect()

        def claim(self, logs: Any, token: FencingToken) -> Any:
            fault.at("claim")
            found = super().claim(logs, token)
            fault.at("claimed")
            return found

        def _begin(self, stages: Any) -> None:
            fault.at("begin")
            super()._begin(stages)
            fault.at("begun")

        def _copy(self, stages: Sequence[tuple[Any, bytes]]) -> None:
            for stage, data in stages:
                with self._connection.cursor() as cursor, cursor.copy(stage.copy) as copy:
                    copy.write(data[: len(data) // 2])
                    self._connection.pgconn.flush()
                    fault.at("half")
                    copy.write(data[len(data) // 2 :])
            fault.at("copied")

        def _finish(self, statements: Sequence[str]) -> None:
            if fault._point != "sent":
                super()._finish(statements)
                fault.at("committed")
                return
            connection = self._connection.pgconn
            connection.send_query("; ".join(statements).encode())
            while connection.flush():
                pass
            before = fault._hits
            fault.at("sent")
            if before == 1:  # woken up
                raise psycopg.OperationalError("the answer is lost")
            while (result := connection.get_result()) is not None:
                if result.error_message:
                    raise psycopg.errors.lookup(result.error_field(67).decode())(result.error_message.decode())

    return StruckDatabase


def life(arguments: list[str]) -> int:
    """Write the log to its end. `arguments` is a JSON object: see the campaign. Returns the exit code."""
    given: dict[str, Any] = json.loads(arguments[0])
    fault = Fault(given["point"], given["action"], given["hits"])
    task.Database = struck_database(fault)  # type: ignore[misc]
    log = records(given["config"]["topics"], given["seed"], given["count"])
    committed = Path(given["committed"])
    try:
        _write(given, fault, log, committed)
    except FencedError as error:
        print(f"fenced: {error}", flush=True)
        return FENCED
    return 0


def _write(
    given: Mapping[str, Any], fault: Fault, log: Mapping[TopicPartition, Sequence[SinkRecord]], committed: Path
) -> None:
    drawn = random.Random(given["seed"] + given["generation"])
    topic = given["config"]["topics"]
    known = json.loads(committed.read_text()) if committed.exists() else {}
    run: SinkRun = _done(lambda: _opened(given, {TopicPartition(topic, int(n)): at for n, at in known.items()}, log))

    def deliver() -> None:
        before = dict(run.positions), dict(run.taken)
        try:
            fault.at("put")
            run.deliver(log, drawn.randrange(1, 20))
            fault.at("taken")
        except RetriableError:
            run.positions, run.taken = before
            raise

    def commit() -> None:
        fault.at("commit")
        allowed = run.let_commit()
        fault.at("flushed")
        written = committed.with_suffix(f".{given['generation']}")
        written.write_text(json.dumps({place.partition: at for place, at in allowed.items()}))
        written.replace(committed)

    while any(run.positions[place] < len(own) for place, own in log.items()):
        _done(deliver)
        if drawn.randrange(3) == 0:
            _done(commit)
    _done(commit)


def _done(step: Callable[[], Any]) -> Any:
    """Do a step, again while the database is away. Raises any other error at once."""

    def tried() -> tuple[Any, Exception | None] | None:
        try:
            return step(), None
        except RetriableError as error:
            print(f"again: {error}", flush=True)
            return None
        except Exception as error:
            return None, error

    found, error = eventually(tried, within_s=120)
    if error is not None:
        raise error
    return found


def _opened(
    given: Mapping[str, Any], committed: dict[TopicPartition, int], log: Mapping[TopicPartition, Any]
) -> SinkRun:
    run = SinkRun(
        task.PostgresSink,
        given["config"],
        committed=committed,
        token=FencingToken(1, given["generation"]),
        topic_ids={given["config"]["topics"]: "the id"},
    )
    run.open(*log)
    return run
