"""Calls that never return, on a running worker: a draw of those of which `make chaos` runs all (test_hangs_table)."""

import random
from collections.abc import Callable
from pathlib import Path

from fencepost.embedded import EmbeddedKafka
from support.chaos.hangs import FRAMES, NEIGHBOUR, PYTHON, Planting
from support.worker import Worker


def test_a_hanging_call_is_named_and_a_restart_loses_nothing(
    worker: Worker, name: str, values: Callable[..., list[str]], kafka: EmbeddedKafka, tmp_path: Path, seed: int
) -> None:
    print(f"FENCEPOST_CHAOS_SEED={seed}")
    drawn = random.Random(seed)
    assert worker.create(name, {**NEIGHBOUR, "topic": name}).status_code == 201
    before = len(values(name, 10, 120))
    planting = Planting(worker, kafka.bootstrap_servers, tmp_path, name)
    planting.plant([*drawn.sample(PYTHON, 2), drawn.choice(FRAMES)])
    try:
        planting.await_named()
        seen = values(name, before + 10, 120)
        planting.restart()
        planting.ensure_delivered()
        seen = values(name, len(seen) + 10, 120)
        assert seen == [str(number) for number in range(len(seen))]
    finally:
        planting.delete()
