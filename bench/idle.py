"""What many idle tasks cost: 200 connectors with one task each, then, on our side, 1,000 tasks of one connector."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.family import processor_s, proportional_mb, resident_mb, since
from bench.growing import GrowingFile
from bench.latency import config
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES, Side
from fencepost.embedded import EmbeddedKafka

_CLIENTS = 4
_SETTLE_S = 10.0
_IDLE_S = 30.0
_WITHIN_S = 240.0
_TASKS = 1000

ROWS = {
    "running": ("all RUNNING after", "s", "10 or less"),
    "pss_mb": ("resident in all, shared pages counted once", "MB", "1,600 or less"),
    "rss_mb": ("resident, sum over the processes", "MB", ""),
    "cores": ("processor time while idle", "cores", "0.2 or less"),
    "broker_cores": ("processor time of the broker meanwhile", "cores", ""),
}


def run(options: Options) -> Result:
    """Each side in turn, then the thousand tasks."""
    connectors = options.size(200, 20)
    samples: dict[str, dict[str, list[float]]] = {what: {side: [] for side in SIDES} for what in ROWS}
    detail: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    rows: list[Row] = []
    with options.directory() as directory:
        if not options.cases or "connectors" in options.cases:
            for turn in options.turns_of(2):
                for name in options.sides(turn):
                    found, spent = _connectors(name, directory, connectors)
                    _keep(samples, name, found)
                    detail[name].append(spent)
                    say(f"idle {name:10} {_told(found)} {spent}")
            rows += _rows(f"{connectors} connectors with one idle task each", samples, detail)
        if "fencepost" in options.sides(0) and (not options.cases or "tasks" in options.cases):
            tasks = min(_TASKS, connectors * 5)
            found, spent = _tasks(directory, tasks)
            say(f"{tasks} tasks {_told(found)} {spent}")
            ours = {what: {"fencepost": [value]} for what, value in found.items()}
            rows += [
                replace(row, reach="") for row in _rows(f"{tasks} tasks of one connector", ours, {"fencepost": [spent]})
            ]
    return Result("idle", "Many idle tasks", _method(), _settings(), rows)


def _connectors(name: str, directory: Path, count: int) -> tuple[dict[str, float], dict[str, float]]:
    """Create them with a few clients at once, wait, look."""
    with EmbeddedKafka() as kafka, SIDES[name](kafka.bootstrap_servers, directory) as side:
        file = GrowingFile(directory / f"{side.group}.txt")
        names = [f"{side.group}-{number}" for number in range(count)]
        began = time.monotonic()
        with ThreadPoolExecutor(_CLIENTS) as clients:
            list(clients.map(lambda each: side.create(each, config(file, each)), names))
        created_s = time.monotonic() - began
        _wait(side, count, count)
        found, spent = _look(side, kafka, time.monotonic() - began)
        return found, {"created_s": round(created_s, 2), **spent}


def _tasks(directory: Path, count: int) -> tuple[dict[str, float], dict[str, float]]:
    """One connector with so many tasks, each of which sends a row in an hour."""
    with EmbeddedKafka() as kafka, SIDES["fencepost"](kafka.bootstrap_servers, directory) as side:
        began = time.monotonic()
        quiet = {"rows.per.second": str(count / 3600), "batch.size": "1"}
        side.create("many", {"connector.class": "DatagenConnector", "tasks.max": str(count), "topic": "many", **quiet})
        _wait(side, 1, count)
        return _look(side, kafka, time.monotonic() - began)


def _wait(side: Side, connectors: int, tasks: int) -> None:
    """Until all are RUNNING. TimeoutError says how many are in which state."""
    deadline = time.monotonic() + _WITHIN_S
    while (states := _states(side)) != {"connector RUNNING": connectors, "task RUNNING": tasks}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{side.name}: not all RUNNING within {_WITHIN_S:.0f} s: {states}\n{side.last_lines()}")
        time.sleep(0.1)


def _states(side: Side) -> dict[str, int]:
    found: dict[str, int] = {}
    answer: Mapping[str, Any] = side.rest.get("/connectors?expand=status").json()
    for entry in answer.values():
        status = entry["status"]
        for what in (f"connector {status['connector']['state']}", *(f"task {t['state']}" for t in status["tasks"])):
            found[what] = found.get(what, 0) + 1
    return found


def _look(side: Side, kafka: EmbeddedKafka, running_s: float) -> tuple[dict[str, float], dict[str, float]]:
    time.sleep(_SETTLE_S)
    before, broker = processor_s(side.pid), processor_s(kafka.pid)
    time.sleep(_IDLE_S)
    spent = since(before, processor_s(side.pid))
    cores = sum(spent.values()) / _IDLE_S
    broker_cores = sum(since(broker, processor_s(kafka.pid)).values()) / _IDLE_S
    memory = {"pss_mb": proportional_mb(side.pid), "rss_mb": resident_mb(side.pid)}
    return {"running": running_s, **memory, "cores": cores, "broker_cores": broker_cores}, spent


def _keep(samples: Mapping[str, Mapping[str, list[float]]], side: str, found: Mapping[str, float]) -> None:
    for what, value in found.items():
        samples[what][side].append(value)


def _told(found: Mapping[str, float]) -> str:
    return ", ".join(f"{what} {value:.2f}" for what, value in found.items())


def _rows(title: str, samples: Mapping[str, Mapping[str, list[float]]], detail: Mapping[str, Any]) -> list[Row]:
    return [
        Row(f"{title}: {text}", unit, samples[what], reach=reach, detail=detail if what == "cores" else {})
        for what, (text, unit, reach) in ROWS.items()
    ]


def _settings() -> Mapping[str, Mapping[str, str]]:
    return {"both": dict.fromkeys(SIDES, "exactly-once, all at defaults")}


def _method() -> list[str]:
    return [
        f"FileStreamSources that wait for lines in one empty file, created by {_CLIENTS} clients at once; the time is "
        "from the first POST. The thousand tasks are of a DatagenConnector that sends a row an hour and task.",
        f"Memory and processor time are those of the worker and all below it, the latter over {_IDLE_S:.0f} s that "
        f"begin {_SETTLE_S:.0f} s after all are RUNNING. Each turn has a broker of its own.",
    ]
