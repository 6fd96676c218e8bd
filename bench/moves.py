"""Tasks move, because a worker leaves or joins, or because there are more or fewer of them."""

import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from bench.group import await_spread, owners
from bench.scene import LINES_PER_S, PATIENCE_S, STEADY_S, Samples, Scene
from bench.side import Side
from bench.tail import Seen, Tail
from fencepost.testing import eventually

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TASKS = 6


def handover(scene: Scene) -> Samples:
    """Six tasks on three workers, of which the third leaves and joins again."""
    found: Samples = {"moved": [], "stayed": []}
    with scene.workers(3) as group:
        name = group[0].group
        scene.topics(name)
        group[0].create(name, _rows(name, _TASKS))
        with Tail(scene.kafka.bootstrap_servers, name, number=_row_number) as tail:
            await_spread(group[0], [name], _TASKS, group)
            for _ in range(scene.count):
                _note_pauses(found, tail, group, group[2].stop, group[:2])
                _note_pauses(found, tail, group, group[2].start, group)
                for kind, values in found.items():
                    scene.tell(kind, values)
    return found


def _note_pauses(
    found: Samples, tail: Tail, group: Sequence[Side], act: Callable[[], object], among: Sequence[Side]
) -> None:
    """Act, wait until the tasks are spread over `among`, and note how long each task was silent at most."""
    name = group[0].group
    before = owners(group[0], name)
    time.sleep(STEADY_S[1])
    at_s = time.monotonic()
    act()
    after = await_spread(group[0], [name], _TASKS, among)[name]
    time.sleep(STEADY_S[1])
    for task in range(_TASKS):
        times = [s.at_s for s in tail.seen if s.at_s >= at_s - STEADY_S[0] and s.number % _TASKS == task]
        kind = "stayed" if before[task] == after[task] else "moved"
        found[kind].append(max(late - early for early, late in pairwise(times)))


def rescale(scene: Scene) -> Samples:
    """From 3 to 5 to 1 tasks, and back. Each config makes rows of its own, and each task of it must have sent one."""
    found: Samples = {"rescaled": []}
    with scene.workers(2) as group:
        name = group[0].group
        scene.topics(name)
        group[0].create(name, _rows(name, 3))
        with Tail(scene.kafka.bootstrap_servers, name, number=_maker) as tail:
            await_spread(group[0], [name], 3, group)
            for turn in range(scene.count):
                for step, tasks in enumerate((5, 1, 3)):
                    found["rescaled"].append(_rescaled_s(group, tail, tasks, generation=1 + turn * 3 + step))
                scene.tell("rescaled", found["rescaled"])
    return found


def _rescaled_s(group: Sequence[Side], tail: Tail, tasks: int, generation: int) -> float:
    name = group[0].group
    time.sleep(STEADY_S[1])
    at_s = time.monotonic()
    group[0].rest.put(f"/connectors/{name}/config", json=_rows(name, tasks, generation)).raise_for_status()
    left = {generation * 10 + task for task in range(tasks)}

    def is_last(seen: Seen) -> bool:
        left.discard(seen.number)
        return not left

    last = tail.first(is_last, PATIENCE_S)
    eventually(lambda: group[0].is_running(name, tasks), within_s=60)
    return last.at_s - at_s


def _rows(topic: str, tasks: int, generation: int = 0) -> dict[str, str]:
    return {
        "connector.class": "DatagenConnector",
        "topic": topic,
        "tasks.max": str(tasks),
        "rows.per.second": str(LINES_PER_S),
        "fields": f"id:sequence,{tasks}of{generation}:word",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }


def _row_number(value: bytes) -> int:
    return int(json.loads(value)["id"])


def _maker(value: bytes) -> int:
    """Ten times the generation of the config that a row was made by, and the task of it that made it."""
    row = json.loads(value)
    tasks, _, generation = next(key for key in row if key != "id").partition("of")
    return int(generation) * 10 + int(row["id"]) % int(tasks)
