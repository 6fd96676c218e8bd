"""How long nothing becomes visible after a kill -9 under load."""

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.family import family, has_open, kill_all
from bench.growing import Feeder, GrowingFile
from bench.latency import config
from bench.options import Options, say
from bench.recovery_flows import FLOWS, TARGETS_S, kills_of_flow
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.tail import Tail, anomalies
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually

_LINES_PER_S = 1000
_DEAD_S = 0.25
"""What is seen up to here was committed before the kill; nobody is back so soon."""
_STEADY_S = (1.0, 2.0)
_PATIENCE_S = 200.0
_SEED = 4
_TURNS = 3
_PEER_SHARE = 10
"""The peer takes up to 70 s each time: a tenth of ours."""

Kill = Callable[[Side, GrowingFile], None]


def run(options: Options) -> Result:
    """Kill workers of both sides, and slots of ours."""
    count = options.size(10, 3)
    found: dict[str, dict[str, list[float]]] = {what: {side: [] for side in SIDES} for what in _KILLS}
    wrong: dict[str, list[float]] = {side: [] for side in SIDES}
    of_flows: dict[str, list[float]] = {kind: [] for kind in FLOWS}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        for turn in options.turns_of(_TURNS):
            for name in options.sides(turn):
                for what in _KILLS if name == "fencepost" else ("worker",):
                    if options.cases and what not in options.cases:
                        continue
                    kills = count if name == "fencepost" else max(count // _PEER_SHARE, 1)
                    taken, lines = _kills(kafka, directory, name, what, kills, random.Random(_SEED + turn))
                    found[what][name] += taken
                    wrong[name].append(lines)
            for kind in FLOWS if options.only in ("", "fencepost") else ():
                if not options.cases or kind in options.cases:
                    of_flows[kind] += kills_of_flow(kafka, directory, kind, count, random.Random(_SEED + turn))
    result = Result("recovery", "Recovery", _method(), _settings())
    statistics = ("p50", "max")
    name = "kill -9 of the only worker and all below it, restarted at once → next committed record"
    result.rows.append(Row(name, "s", found["worker"], statistics, reach="10 s every time"))
    name = "kill -9 of a slot's process → next committed record"
    result.rows.append(Row(name, "s", {"fencepost": found["slot"]["fencepost"]}, statistics, reach="p50 3 s"))
    for kind, taken in of_flows.items():
        name = f"the same, {_SHOWN[kind]}"
        result.rows.append(Row(name, "s", {"fencepost": taken}, statistics, reach=f"p50 {TARGETS_S[kind]} s"))
    result.rows.append(Row("lines lost, double or out of order, in one turn", "", wrong, ("max",), reach="0"))
    return result


def _kills(
    kafka: EmbeddedKafka, directory: Path, name: str, what: str, count: int, moments: random.Random
) -> tuple[list[float], int]:
    """Kill under load; returns how long each took, and how many lines were lost, double or out of order."""
    found: list[float] = []
    with SIDES[name](kafka.bootstrap_servers, directory) as side:
        Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(side.group, partitions=1, replication=1)
        file = GrowingFile(directory / f"{side.group}.txt")
        side.create(side.group, config(file, side.group))
        with Tail(kafka.bootstrap_servers, side.group) as tail:
            with Feeder(file, _LINES_PER_S):
                tail.wait_for(0, _PATIENCE_S)
                for number in range(count):
                    time.sleep(moments.uniform(*_STEADY_S))
                    at_s = time.monotonic()
                    _KILLS[what](side, file)
                    found.append(tail.next_after(at_s + _DEAD_S, _PATIENCE_S).at_s - at_s)
                    say(f"recovery of a {what} {name:10} {number + 1}/{count} {found[-1]:.2f} s")
                    tail.wait_for(file.count - _LINES_PER_S, _PATIENCE_S)
            tail.wait_for(file.count - 1, _PATIENCE_S)
            say(f"{name}: {anomalies(tail.seen)} lines lost, double or out of order")
            return found, anomalies(tail.seen)


def _kill_worker(side: Side, _file: GrowingFile) -> None:
    side.kill()
    side.start(is_waiting=False)


def _kill_slot(side: Side, file: GrowingFile) -> None:
    """The process that has the file open: that of the slot in which the task runs."""
    found = eventually(lambda: [p for p in family(side.pid) if has_open(p, file.path)], within_s=30, every_s=0.01)
    kill_all(found)


_SHOWN = {
    "sink": "of the worker with a FileStreamSink → next line in the file",
    "mirror": "of the worker with a mirror → next committed record",
    "files": "of the worker with a FilesSink → next file",
}

_KILLS: Mapping[str, Kill] = {"worker": _kill_worker, "slot": _kill_slot}


def _settings() -> Mapping[str, Mapping[str, str]]:
    return {"both": dict.fromkeys(SIDES, "exactly-once, a transaction each poll, all at defaults")}


def _method() -> list[str]:
    return [
        f"{_LINES_PER_S} lines a second are appended to a file. At a random moment (seeds from {_SEED}) SIGKILL goes "
        "to the worker and everything below it, which is started again at once with the same file, or to the Python "
        "process of the slot. The time is from the signal to the next record that a read_committed consumer is given. "
        "A FileStreamSink, a mirror (MirrorSinkConnector) and a FilesSink are fed 200 records a second, and their only "
        "worker is killed in the same way.",
    ]
