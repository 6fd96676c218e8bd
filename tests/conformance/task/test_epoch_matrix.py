"""The crash matrix of epochs: at every step, before, during and after it, a start dies, or stands still and wakes up.

Cells run at the same time, each with a topic and a group of its own. A start that stands still is cut off from the
broker for longer than its session; what it was about to say is delivered when its successor has gone on.
"""

import itertools
import random
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from epoch_stage import Stage, crash

from fencepost.embedded import EmbeddedKafka
from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import EpochOffset
from fencepost.testing import eventually
from support.long_form import IS_LONG
from support.proxy import Action, KafkaProxy, Rule

COMMITS = ("plan", "token", "commit")
WORKS = ("write", "publish")
KINDS = ("killed", "frozen")
MOMENTS = ("before", "during", "after")
_OFFSET_COMMIT = 8  # https://kafka.apache.org/protocol
_AT_ONCE = 8


def drawn(seed: int) -> list[tuple[str, str, str]]:
    """Return every step and moment, in the short form with one of the two kinds of fault each."""
    points = [point for point in itertools.product(MOMENTS, (*COMMITS, *WORKS)) if point != ("during", "write")]
    draw = random.Random(seed)
    kinds = [KINDS if IS_LONG else (draw.choice(KINDS),) for _ in points]
    return [(kind, *point) for point, each in zip(points, kinds, strict=True) for kind in each]


class Cell:
    """A start is brought to a point, and meets its fault there; another one finishes what it began."""

    def __init__(self, stage: Stage, proxy: KafkaProxy, kind: str, moment: str, step: str) -> None:
        self.stage, self.proxy = stage, proxy
        self.kind, self.moment, self.step = kind, moment, step
        self.is_there, self.goes_on, self.has_gone = threading.Event(), threading.Event(), threading.Event()

    def run(self) -> None:
        self.stage.produce(5)
        self.stage.produce(4, 1)
        first = self.stage.start(self.proxy.bootstrap_servers)
        self._hook(first)
        assert self.is_there.wait(120), f"{self}: not there"
        self.stage.store.before.clear()
        self.stage.produce(3)
        if self.kind == "killed":
            crash(first)
            self.goes_on.set()
        else:
            self.proxy.pause()
        self.stage.start()
        eventually(lambda: self.stage.offsets() == {0: 8, 1: 4}, within_s=90)
        if self.kind == "frozen":
            self.goes_on.set()
            self.proxy.resume()
            assert self.has_gone.wait(90)
            first.control.stop()
        first.thread.join(90)
        assert not first.thread.is_alive()
        self.stage.produce(2, 1)
        eventually(lambda: self.stage.offsets() == {0: 8, 1: 6}, within_s=60)
        self.stage.end()
        self.stage.store.holds({0: 8, 1: 6})

    def __str__(self) -> str:
        return f"{self.kind} {self.moment} {self.step}"

    def _hook(self, task: Any) -> None:
        if self.step in WORKS:
            names = {"before": self.step, "during": f"during {self.step}", "after": f"after {self.step}"}
            self.stage.store.before[names[self.moment]] = lambda _: self._stop_here()
            return
        number = COMMITS.index(self.step)
        commit, count = task.membership.commit, itertools.count()

        def hooked(offsets: Mapping[TopicPartition, EpochOffset]) -> None:
            is_it = next(count) == number
            if is_it and self.moment == "during":
                rule = self.proxy.on(_OFFSET_COMMIT, Action.HOLD_ANSWER)
                threading.Thread(target=self._await_held, args=(rule,), daemon=True).start()
            if is_it and self.moment == "before":
                self._stop_here()
            try:
                commit(offsets)
            finally:
                if is_it and self.moment == "during":
                    self.has_gone.set()
            if is_it and self.moment == "after":
                self._stop_here()

        task.membership.commit = hooked

    def _await_held(self, rule: Rule) -> None:
        rule.await_answered(within_s=90)
        self.is_there.set()

    def _stop_here(self) -> None:
        self.is_there.set()
        self.goes_on.wait(600)
        self.has_gone.set()


@pytest.mark.chaos
def test_e16_an_epoch_survives_every_fault_at_every_step(
    kafka: EmbeddedKafka, topic_name: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    cells = drawn(seed)

    def run(number: int) -> None:
        with KafkaProxy(kafka.bootstrap_servers) as proxy:
            stage = Stage(kafka.bootstrap_servers, f"{topic_name}-{number}", monkeypatch)
            stage.session_ms = "6000"  # for which who is frozen is waited for
            cell = Cell(stage, proxy, *cells[number])
            try:
                cell.run()
            except AssertionError as error:
                raise AssertionError(f"{cell}: {error}") from error
            finally:
                cell.goes_on.set()
                for task in stage.tasks:
                    task.control.stop()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        failures = [str(f.exception()) for f in [pool.submit(run, n) for n in range(len(cells))] if f.exception()]
    assert not failures, "\n".join([f"FENCEPOST_CHAOS_SEED={seed}", *failures])
