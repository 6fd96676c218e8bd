"""Calls that never return, in all ways and in all calls of connectors, on one worker with real Spark.

`tests/integration/worker/test_hangs.py` has a draw of them.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from support.chaos.hangs import FRAMES, JAVA, LOCK, NEIGHBOUR, PYTHON, SLOW_S, Hang, Planting
from support.java_plugins import compile_plugins
from support.long_form import IS_LONG
from support.worker import Worker

PLUGINS = Path(__file__).parents[1] / "integration" / "worker" / "plugins"
SETTINGS = {
    "task.shutdown.graceful.timeout.ms": "2000",
    "spark.master": "local[48]",
    "slots.max": "1",
    "config.providers": "hanging",
    "config.providers.hanging.class": "HangingProvider",
}
Plant = Callable[..., None]
ALL = [*PYTHON, *FRAMES, *JAVA]
PARTS = 3

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long"),
    pytest.mark.timeout(1200),
]


class Neighbour:
    """A task in the slot of those that hang, which writes 0, 1, 2 and so on."""

    def __init__(self, name: str, reader: CommittedReader) -> None:
        self._name, self._reader = name, reader
        eventually(self._count, within_s=SLOW_S)

    def _count(self) -> int:
        return len(self._reader.seen_of(self._name, 0))

    def must_move(self) -> None:
        """Wait until it has written more, and check that each number is there once."""
        mark = self._count()
        eventually(lambda: self._count() > mark + 20, within_s=SLOW_S)
        seen = [int(each.value or b"-1") for each in self._reader.seen_of(self._name, 0)]
        found = judge({0: list(range(len(seen)))}, [(0, number) for number in seen])
        assert found.is_clean, str(found)


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Iterator[Worker]:
    compile_plugins(tmp_path / "plugins" / "numbers")
    settings = {**SETTINGS, "plugin.path": f"{PLUGINS},{tmp_path / 'plugins'}"}
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=topic_name) as running:
        eventually(running.slots, within_s=SLOW_S)
        yield running


@pytest.fixture
def neighbour(worker: Worker, kafka: EmbeddedKafka, topic_name: str) -> Iterator[Neighbour]:
    name = f"{topic_name}-neighbour"
    assert worker.create(name, {**NEIGHBOUR, "topic": name}).status_code == 201
    with CommittedReader(kafka.bootstrap_servers, [name]) as reader:
        yield Neighbour(name, reader)


@pytest.fixture
def plant(
    worker: Worker, neighbour: Neighbour, kafka: EmbeddedKafka, tmp_path: Path, topic_name: str, seed: int,
    capfd: pytest.CaptureFixture[str],
) -> Plant:  # fmt: skip
    def plant(hangs: Sequence[Hang], *, fails: bool = False) -> None:
        """Plant hangs, and wait until each was named and what they have held up has arrived."""
        planting = Planting(worker, kafka.bootstrap_servers, tmp_path, topic_name, fails)
        planting.plant(hangs)
        planting.await_named()
        with capfd.disabled():
            print(f"\nFENCEPOST_CHAOS_SEED={seed}")
            print(*(f"{took_s:5.1f} s {name}" for name, took_s in planting.named_s.items()), sep="\n")
            print(f"{len(planting.named_s)} of {len(hangs)}, the last after {max(planting.named_s.values()):.1f} s")
        neighbour.must_move()
        planting.restart()
        planting.ensure_delivered()
        planting.delete()
        neighbour.must_move()

    return plant


@pytest.mark.parametrize("part", range(PARTS))
def test_every_hanging_call_is_named_and_costs_no_record_and_no_neighbour(plant: Plant, seed: int, part: int) -> None:
    hangs = ALL[part::PARTS]
    plant(random.Random(seed).sample(hangs, len(hangs)))


@pytest.mark.parametrize("group", [[LOCK], PYTHON, FRAMES, JAVA], ids=["lock", "python", "frames", "java"])
def test_tasks_that_fail_on_a_hang_restart_and_cost_no_record_and_no_neighbour(
    plant: Plant, seed: int, group: Sequence[Hang]
) -> None:
    """A draw, one after the other: each takes its slot, with all that runs there, and others that hang would go on."""
    for hang in random.Random(seed).sample(group, min(3, len(group))):
        plant([hang], fails=True)


def test_a_call_that_stops_the_whole_worker_is_named_in_its_log(
    worker: Worker, topic_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It holds the interpreter's lock in the worker's own process, where DataFrame tasks are planned."""
    once = tmp_path / "once"
    hangs = {"hang.in": "splits", "hang.how": "matches_a_regular_expression", "hang.once": str(once)}
    config = {"connector.class": "hanging.HangingFrames", "topic": topic_name, **hangs}
    assert worker.create(topic_name, config).status_code == 201
    said = eventually(
        lambda: "in matches_a_regular_expression" in (text := worker.log_text()) and text, within_s=SLOW_S
    )
    with capfd.disabled():
        print(f"named {time.time() - once.stat().st_mtime:.1f} s after it began, at most")
    assert "in splits" in said
    worker.kill()
    worker.start(within_s=SLOW_S)
    worker.wait_for_tasks(topic_name, "RUNNING", within_s=SLOW_S)
