"""A worker is lost: until another has its tasks, or until it is back with all of them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from bench.group import at, owners
from bench.growing import Feeder, GrowingFile
from bench.latency import config
from bench.scene import LINES_PER_S, PATIENCE_S, STEADY_S, Samples, Scene
from bench.side import Side
from bench.tail import Tail
from fencepost.testing import eventually

CONNECTORS = 20
INTERVAL_MS = 3000
_DEAD_S = 0.25
"""What is seen up to here after a kill was committed before it."""


def owner(scene: Scene) -> Samples:
    return {"owner": _kills_of_owner(scene, {})}


def undelayed(scene: Scene) -> Samples:
    return {"undelayed": _kills_of_owner(scene, {"scheduled.rebalance.max.delay.ms": "0"})}


def _kills_of_owner(scene: Scene, settings: Mapping[str, str]) -> list[float]:
    with scene.workers(2, settings) as group, _fed_lines(scene, group[0].group, group[0]) as tail:
        return kill_owners(scene, group, group[0].group, tail)


def kill_owners(
    scene: Scene, group: Sequence[Side], connector: str, tail: Tail, *, rest_s: float = STEADY_S[1]
) -> list[float]:
    """Kill the worker that has the connector's one task, time after time: how long until the next record.

    It is started again, and `rest_s` after it is healthy the next kill may come.
    """
    moments, taken = scene.moments, list[float]()
    for _ in range(scene.count):
        time.sleep(moments.uniform(*STEADY_S))
        owner = at(group, eventually(lambda: owners(_alive(group), connector), within_s=60)[0])
        at_s = time.monotonic()
        owner.kill()
        taken.append(tail.next_after(at_s + _DEAD_S, PATIENCE_S).at_s - at_s)
        scene.tell("owner", taken)
        owner.start()
        time.sleep(rest_s)
    return taken


def _alive(group: Sequence[Side]) -> Side:
    return next(side for side in group if side.runs)


@contextmanager
def _fed_lines(scene: Scene, name: str, via: Side) -> Iterator[Tail]:
    """A connector of one task that reads a file which grows; its topic, being read, has the first line."""
    scene.topics(name)
    file = GrowingFile(scene.directory / f"{name}.txt")
    via.create(name, config(file, name))
    with Tail(scene.kafka.bootstrap_servers, name) as tail, Feeder(file, LINES_PER_S):
        tail.wait_for(0, PATIENCE_S)
        yield tail


def restart(scene: Scene) -> Samples:
    moments, taken = scene.moments, []
    with scene.workers(1) as (side,), ExitStack() as stack:
        names = [f"{side.group}-{n}" for n in range(CONNECTORS)]
        scene.topics(*names)
        for place, name in enumerate(names):
            file = GrowingFile(scene.directory / f"{name}.txt")
            interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": str(INTERVAL_MS)}
            side.create(name, {**config(file, name), **(interval if place % 2 else {})})
            stack.enter_context(Feeder(file, 50))
        tail = stack.enter_context(Tail(scene.kafka.bootstrap_servers, *names))
        for name in names:
            tail.next_after(0, PATIENCE_S, name)
        for _ in range(scene.count):
            time.sleep(INTERVAL_MS / 1000 + moments.uniform(*STEADY_S))
            at_s = time.monotonic()
            side.kill()
            side.start(is_waiting=False)
            back_s = [tail.next_after(at_s + _DEAD_S, PATIENCE_S, name).at_s for name in names]
            taken.append(max(back_s) - at_s)
            scene.tell("restart", taken)
    return {"restart": taken}
