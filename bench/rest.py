"""How long a worker takes to answer."""

import itertools
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from bench.growing import GrowingFile
from bench.latency import config
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES, Side, SideError
from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually

_TURNS = 3
_WARM_UP = 50
_CONNECTORS = 5
_LOOKS_PER_CHANGE = 17
_WITHIN_S = 60.0

ROWS = {
    "get": ("GET a connector's status", ("median", "p99"), "p99 6 or less"),
    "put": ("PUT a changed config", ("median", "p99"), "100 or less"),
    "post": ("POST a connector", ("median", "p99"), ""),
    "delete": ("DELETE a connector", ("median", "p99"), "100 or less"),
}


def run(options: Options) -> Result:
    """Ask and change, on each side in turn."""
    per_turn = options.size(12, 6)
    samples: dict[str, dict[str, list[float]]] = {what: {side: [] for side in SIDES} for what in ROWS}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        for turn in options.turns_of(_TURNS):
            for name in options.sides(turn):
                with SIDES[name](kafka.bootstrap_servers, directory) as side:
                    for what, found in _Session(side, directory).measure(per_turn).items():
                        samples[what][name] += found
                        say(f"rest {name:10} {what:6} n {len(found)} median {sorted(found)[len(found) // 2]:.1f} ms")
    rows = [Row(text, "ms", samples[what], stats, reach=reach) for what, (text, stats, reach) in ROWS.items()]
    return Result("rest", "REST", _method(), _settings(), rows)


class _Session:
    """One worker with a few connectors, asked over one connection."""

    def __init__(self, side: Side, directory: Path) -> None:
        self._side = side
        self._file = GrowingFile(directory / f"{side.group}.txt")
        self._sizes = itertools.count(1000)

    def measure(self, changes: int) -> dict[str, list[float]]:
        """Milliseconds of each request."""
        side = self._side
        kept = [f"{side.group}-kept-{n}" for n in range(_CONNECTORS)]
        new = [f"{side.group}-new-{n}" for n in range(changes)]
        for name in kept:
            side.create(name, self._config())
            self._settle(name)
        path = f"/connectors/{kept[0]}/status"
        for _ in range(_WARM_UP):
            self._timed("GET", path, 200)
        found = {"get": [self._timed("GET", path, 200) for _ in range(changes * _LOOKS_PER_CHANGE)]}
        found["put"] = [self._change("PUT", f"/connectors/{kept[0]}/config", 200, kept[0]) for _ in range(changes)]
        found["post"] = [self._change("POST", "/connectors", 201, name) for name in new]
        found["delete"] = [self._timed("DELETE", f"/connectors/{name}", 204) for name in new]
        return found

    def _change(self, method: str, path: str, expected: int, name: str) -> float:
        body = self._config() if method == "PUT" else {"name": name, "config": self._config()}
        taken = self._timed(method, path, expected, body)
        self._settle(name)
        return taken

    def _config(self) -> dict[str, str]:
        """Another one each time."""
        return {**config(self._file, self._side.group), "batch.size": str(next(self._sizes))}

    def _settle(self, name: str) -> None:
        eventually(lambda: self._side.is_running(name, 1), within_s=_WITHIN_S)

    def _timed(self, method: str, path: str, expected: int, body: Mapping[str, object] | None = None) -> float:
        began = time.perf_counter()
        answer = self._side.rest.request(method, path, json=body)
        taken = (time.perf_counter() - began) * 1000
        if answer.status_code != expected:
            raise SideError(f"{self._side.name}: {method} {path}: {answer.status_code} {answer.text[:500]}")
        return taken


def _settings() -> Mapping[str, Mapping[str, str]]:
    return {"both": dict.fromkeys(SIDES, "exactly-once, all at defaults")}


def _method() -> list[str]:
    return [
        f"One client over one kept connection; {_CONNECTORS} connectors with an idle task each; {_WARM_UP} requests "
        f"beforehand that do not count (httpx {httpx.__version__}). After each change the task is waited for; "
        "deletions follow each other."
    ]
