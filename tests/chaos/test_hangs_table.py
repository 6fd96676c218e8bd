"""Calls that never return, in all ways and in all calls of connectors, on one worker with real Spark.

`tests/integration/worker/test_hangs.py` has a draw of them.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from support.chaos.hangs import FRAMES, JAVA, LOCK, PYTHON, SLOW_S, Planting
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
AT_ONCE = 15
NEIGHBOUR = {"connector.class": "hanging.HangingSource", "last": str(10**9), "pause.ms": "50"}

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long"),
    pytest.mark.timeout(1800),
]


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Iterator[Worker]:
    compile_plugins(tmp_path / "plugins" / "numbers")
    settings = {**SETTINGS, "plugin.path": f"{PLUGINS},{tmp_path / 'plugins'}"}
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=topic_name) as running:
        eventually(running.slots, within_s=SLOW_S)
        yield running


@pytest.mark.parametrize("fails", [False, True], ids=["reported", "failed"])
def test_every_call_that_never_returns_is_named_and_costs_no_record_and_no_neighbour(
    worker: Worker, kafka: EmbeddedKafka, tmp_path: Path, topic_name: str, seed: int, capfd: pytest.CaptureFixture[str],
    fails: bool,
) -> None:  # fmt: skip
    """Those that are to fail are a draw: as each takes its slot, with all that runs there, a few do so at a time."""
    drawn = random.Random(seed)
    hangs = drawn.sample([*PYTHON, *FRAMES, *JAVA], len(PYTHON) + len(FRAMES) + len(JAVA))
    parts = [hangs[first : first + AT_ONCE] for first in range(0, len(hangs), AT_ONCE)]
    if fails:
        parts = [[LOCK], *(drawn.sample(group, 3) for group in (PYTHON, PYTHON, FRAMES, JAVA))]
    neighbour = f"{topic_name}-neighbour"
    assert worker.create(neighbour, {**NEIGHBOUR, "topic": neighbour}).status_code == 201
    with capfd.disabled(), CommittedReader(kafka.bootstrap_servers, [neighbour]) as reader:
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        eventually(lambda: reader.seen_of(neighbour, 0), within_s=SLOW_S)
        for number, part in enumerate(parts):
            planting = Planting(worker, kafka.bootstrap_servers, tmp_path, f"{topic_name}-{number}", fails)
            planting.plant(part)
            planting.await_named()
            print(*(f"{took_s:5.1f} s {name}" for name, took_s in planting.named_s.items()), sep="\n", flush=True)
            mark = len(reader.seen_of(neighbour, 0))
            eventually(lambda: len(reader.seen_of(neighbour, 0)) > mark + 20, within_s=SLOW_S)  # noqa: B023
            planting.restart()
            planting.ensure_delivered()
            planting.delete()
        mark = len(reader.seen_of(neighbour, 0))
        eventually(lambda: len(reader.seen_of(neighbour, 0)) > mark + 20, within_s=SLOW_S)
        seen = [int(each.value or b"-1") for each in reader.seen_of(neighbour, 0)]
    found = judge({0: list(range(len(seen)))}, [(0, number) for number in seen])
    assert found.is_clean, str(found)
