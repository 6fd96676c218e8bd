"""How long a worker takes to come up that has one connector to run."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx

from bench.growing import GrowingFile
from bench.latency import config
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.tail import Tail
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually

_ROUNDS = 6
_WITHIN_S = 120.0

ROWS = {
    "rest": ("worker start → REST answers (GET /)", "3 or less"),
    "health": ("worker start → ready for requests (GET /health)", ""),
    "running": ("worker start → its task RUNNING", "8 or less"),
    "record": ("worker start → a line that waited is visible", ""),
}


def run(options: Options) -> Result:
    """Start each side once, then again and again, in turn."""
    rounds = options.size(_ROUNDS, 2)
    with options.directory() as directory, EmbeddedKafka() as kafka:
        sides = {name: SIDES[name](kafka.bootstrap_servers, directory) for name in options.sides(0)}
        samples = starts(kafka.bootstrap_servers, directory, sides, rounds)
    rows = [Row(text, "s", samples[what], reach=reach) for what, (text, reach) in ROWS.items()]
    return Result("start", "Start", _method(rounds), _settings(), rows)


def starts(
    bootstrap: str, directory: Path, sides: Mapping[str, Side], rounds: int
) -> Mapping[str, Mapping[str, list[float]]]:
    """Start each worker once, then again and again, in turn: the samples of each row, by side."""
    samples: dict[str, dict[str, list[float]]] = {what: {name: [] for name in sides} for what in ROWS}
    files: dict[str, GrowingFile] = {}
    for name, side in sides.items():
        files[name] = GrowingFile(directory / f"{side.group}.txt")
        Admin({"bootstrap.servers": bootstrap}).topics.create(side.group, partitions=1, replication=1)
        with side:  # its topics, its connector, and the caches of the system
            side.create(side.group, config(files[name], side.group))
            eventually(partial(side.is_running, side.group, 1), within_s=_WITHIN_S)
    for turn in range(rounds):
        for name in list(sides) if turn % 2 == 0 else list(sides)[::-1]:
            with Tail(bootstrap, sides[name].group) as tail:
                found = _start(sides[name], files[name], tail)
            for what, seconds in found.items():
                samples[what][name].append(seconds)
            say(f"start {name:10} " + ", ".join(f"{what} {seconds:.2f} s" for what, seconds in found.items()))
    return samples


def _start(side: Side, file: GrowingFile, tail: Tail) -> dict[str, float]:
    file.append()
    began = time.monotonic()
    found: dict[str, float] = {}
    try:
        side.start(is_waiting=False)
        while "running" not in found:
            now = time.monotonic() - began
            if now > _WITHIN_S:
                raise TimeoutError(f"{side.name} does not come up:\n{side.last_lines()}")
            for what in [what for what in ("rest", "health", "running") if what not in found]:
                if _has(side, what):
                    found[what] = time.monotonic() - began
            time.sleep(0.01)
        found["record"] = tail.wait_for(file.count - 1, _WITHIN_S).at_s - began
    finally:
        side.stop()
    return found


def _has(side: Side, what: str) -> bool:
    path = {"rest": "/", "health": "/health"}.get(what)
    try:
        return _handles_requests(side.rest.get(path)) if path else side.is_running(side.group, 1)
    except httpx.TransportError:
        return False


def _handles_requests(answer: httpx.Response) -> bool:
    """Say whether this is 200, or lacks only Spark, without which Kafka Connect is ready."""
    return answer.status_code == httpx.codes.OK or "Spark is starting" in answer.text


def _settings() -> Mapping[str, Mapping[str, str]]:
    return {"both": dict.fromkeys(SIDES, "exactly-once, all at defaults")}


def _method(rounds: int) -> list[str]:
    return [
        f"A worker that ran before and was stopped in order starts again, {rounds} times, with one FileStreamSource "
        "and a line that was appended meanwhile. Everything is asked about every 10 ms."
    ]
