"""REST, while much is created and while a worker is lost."""

import time
from collections.abc import Sequence

import httpx

from bench.background import Background
from bench.group import await_spread
from bench.growing import GrowingFile
from bench.latency import config
from bench.options import say
from bench.scene import STEADY_S, Samples, Scene
from bench.side import Side
from fencepost.testing import eventually

_EVERY_S = 0.01
_AFTER_S = 20.0


def posts(scene: Scene) -> Samples:
    taken: list[float] = []
    with scene.workers(1) as (side,):
        file = GrowingFile(scene.directory / f"{side.group}.txt")
        names = [f"{side.group}-{n}" for n in range(scene.count)]
        for name in names:
            began = time.monotonic()
            side.create(name, config(file, name))
            taken.append((time.monotonic() - began) * 1000)
        began = time.monotonic()
        eventually(lambda: _all_run(side, scene.count), within_s=240)
        running_s = time.monotonic() - began
    scene.tell("post", taken)
    scene.tell("all running", [running_s])
    return {"post": taken, "all running": [running_s]}


def _all_run(side: Side, count: int) -> bool:
    entries = side.rest.get("/connectors?expand=status").json().values()
    tasks = [[task["state"] for task in entry["status"]["tasks"]] for entry in entries]
    return tasks == [["RUNNING"]] * count


def gets(scene: Scene) -> Samples:
    found: Samples = {"get": [], "failed gets": []}
    moments = scene.moments
    with scene.workers(3) as group:
        file = GrowingFile(scene.directory / f"{group[0].group}.txt")
        names = [f"{group[0].group}-{n}" for n in range(6)]
        for name in names:
            group[0].create(name, config(file, name))
        await_spread(group[0], names, 1, group)
        for _ in range(scene.count):
            with Asker(
                [f"http://{each.address}/connectors/{name}/status" for each in group[:2] for name in names]
            ) as up:
                time.sleep(moments.uniform(*STEADY_S))
                group[2].kill()
                time.sleep(_AFTER_S)
            found["get"] += up.taken_ms
            found["failed gets"].append(len(up.failures))
            scene.tell("get", sorted(up.taken_ms))
            say("\n".join(up.failures[:5]))
            group[2].start()
            await_spread(group[0], names, 1, group)
    return found


class Asker(Background):
    """Asks one URL after the other, without a pause but for a breath; a context manager."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__()
        self.taken_ms: list[float] = []
        self.failures: list[str] = []
        self._urls = urls

    def _run(self) -> None:
        with httpx.Client(timeout=30) as client:
            place = 0
            while not self._stop.wait(_EVERY_S):
                began = time.perf_counter()
                try:
                    answer = client.get(self._urls[place % len(self._urls)])
                    failure = "" if answer.status_code in (200, 409) else f"{answer.status_code} {answer.text[:200]}"
                except httpx.HTTPError as error:
                    failure = repr(error)
                self.taken_ms.append((time.perf_counter() - began) * 1000)
                if failure:
                    self.failures.append(failure)
                place += 1
