"""Topics copied from one cluster to another, exactly once: our mirror beside MirrorMaker 2's connector."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.family import MemorySampler, processor_s, since
from bench.losses import kill_owners
from bench.mirror_scene import OWN, PARTITIONS, WIDTH, Batches, MirrorScene, Paced, check_whole
from bench.options import Options, say
from bench.result import Result, Row
from bench.scene import LINES_PER_S, PATIENCE_S, SEED, Samples
from bench.side import SIDES, Side
from bench.statistic import number, percentile
from bench.tail import ASK_EVERY_MS, Tail
from bench.watch import EVERY_S, Watcher
from fencepost.embedded import EmbeddedKafka

_ALL = {
    "tasks.max": "4",
    "source.consumer.max.poll.records": "20000",
    "source.consumer.max.partition.fetch.bytes": "4194304",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "500",
}
_THEIRS = {"producer.override.linger.ms": "5", "producer.override.batch.size": "131072"}
"""What makes MirrorMaker fast here. Our producer stays at its defaults."""
_BY_RECORDS = {"producer.client": "librdkafka"}
_PROCESSOR = ": processor time of the worker and all below it for a million records"
_LARGE, _SMALL = Batches(262_144), Batches(16_384)
_QUIET_S = 1.0
_PER_S = 1_000
_WARM_S = 5.0
_REST_S = 10.0
"""From a killed worker's start until the next kill: the one that is left shall find it warm."""

ROWS: Mapping[str, tuple[str, str, str, str]] = {
    "defaults": ("1 task, defaults, ours by records", "records/s", "median", "2.5 × or more"),
    "defaults, processor": (f"1 task, defaults, ours by records{_PROCESSOR}", "s", "median", ""),
    "tuned": ("4 tasks, tuned, ours by records", "records/s", "median", "0.9 × or more"),
    "tuned, processor": (f"4 tasks, tuned, ours by records{_PROCESSOR}", "s", "median", ""),
    "large": ("4 tasks, tuned, batches of 256 KiB", "records/s", "median", "3.5 × or more"),
    "large, processor": (f"4 tasks, tuned, batches of 256 KiB{_PROCESSOR}", "s", "median", ""),
    "small": ("4 tasks, tuned, batches of 16 KiB", "records/s", "median", "2.5 × or more"),
    "small, processor": (f"4 tasks, tuned, batches of 16 KiB{_PROCESSOR}", "s", "median", ""),
    "lz4": ("4 tasks, tuned, batches of 256 KiB in lz4", "records/s", "median", "4 × or more"),
    "lz4, processor": (f"4 tasks, tuned, batches of 256 KiB in lz4{_PROCESSOR}", "s", "median", ""),
    "latency, p50": (f"{_PER_S} records/s: produced → visible, p50 of a turn", "ms", "median", "1 × or less"),
    "latency, p99": (f"{_PER_S} records/s: produced → visible, p99 of a turn", "ms", "median", "1 × or less"),
    "killed": (
        "2 workers, kill -9 of the one that mirrors → next committed record at the target", "s", "max", "12 or less",
    ),
    "wide": (f"topics of {PARTITIONS} partitions, one flow: POST → a record in each", "s", "median", "60 or less"),
    "wide, memory": (
        "meanwhile: most resident memory of the worker and all below it", "MB", "max", "1,000 or less",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Some of the rows. `measure` counts so many records, seconds, kills or topics: `full`, or `quick`."""

    key: str
    measure: Callable[[MirrorScene], Samples]
    full: int
    quick: int
    turns: int
    settings: Mapping[str, str] = field(default_factory=lambda: {"tasks.max": "1"})
    ours: Mapping[str, str] = field(default_factory=dict)
    theirs: Mapping[str, str] = field(default_factory=dict)
    batches: Batches = _SMALL
    """Of which the topic is made."""
    peer: int = -1
    """How often the peer does it where that is not `full`: it may take minutes each time."""

    def settings_of(self, side: str, options: Options) -> dict[str, str]:
        """What a flow of this side is told beside its clusters."""
        return {**self.settings, **({**self.ours, **options.ours} if side == "fencepost" else self.theirs)}

    def size_for(self, side: str, options: Options) -> int:
        """How much it counts; 0: this side is not asked."""
        if side == "connect" and self.peer >= 0:
            return 0 if options.is_quick else self.peer
        return options.size(self.full, self.quick)


def run(options: Options) -> Result:
    """Each case in turns between the sides, from one broker to another."""
    found: dict[str, dict[str, list[float]]] = {row: {side: [] for side in SIDES} for row in ROWS}
    cases = [case for case in CASES if not options.cases or case.key in options.cases]
    with options.directory() as directory, EmbeddedKafka() as source, EmbeddedKafka() as target:
        for case in cases:
            for turn in options.turns_of(case.turns):
                for side in options.sides(turn):
                    if size := case.size_for(side, options):
                        settings = case.settings_of(side, options)
                        scene = MirrorScene(target, directory, side, size, source, settings, case.batches)
                        _note(case, side, case.measure(scene), found)
    rows = [
        Row(text, unit, found[key], (name,), unit == "records/s", reach)
        for key, (text, unit, name, reach) in ROWS.items()
    ]
    told = {case.key: {side: _told(case.settings_of(side, options)) for side in SIDES} for case in cases}
    return Result("mirror", "A mirror", _method(), told, rows)


def _note(case: Case, side: str, samples: Samples, found: dict[str, dict[str, list[float]]]) -> None:
    for what, values in samples.items():
        found[f"{case.key}{what}"][side] += values
        say(f"mirror {case.key}{what:12} {side:10} {', '.join(number(value) for value in values)}")


def _moved(scene: MirrorScene) -> Samples:
    """1. Fill. 2. A worker moves it all once as a warm-up, and then 3. again."""
    topic = scene.filled()  # 1
    with scene.worker() as worker:
        _move(scene, worker, topic)  # 2
        return _move(scene, worker, topic)  # 3


def _move(scene: MirrorScene, worker: Side, topic: str) -> Samples:
    alias, bootstrap = scene.alias(), scene.kafka.bootstrap_servers
    remote, before = scene.remote(alias, topic, PARTITIONS), processor_s(worker.pid)
    with Watcher(bootstrap, [remote], PARTITIONS) as watcher, scene.flow(worker, alias, topic):
        done = watcher.until_quiet(scene.count, _QUIET_S, PATIENCE_S)
        spent = sum(since(before, processor_s(worker.pid)).values())
    began_s = next(sample.at_s for sample in watcher.samples if sample.written)
    check_whole(bootstrap, remote, scene.count)
    return {"": [scene.count / (done.at_s - began_s)], ", processor": [spent * 1e6 / scene.count]}


def _latency(scene: MirrorScene) -> Samples:
    """The scene counts seconds, after some that do not count."""
    alias = scene.alias()
    topic = scene.source_topic(f"paced-{alias}")
    remote = scene.remote(alias, topic, 1)
    with ExitStack() as stack:
        worker = stack.enter_context(scene.worker())
        tail = stack.enter_context(Tail(scene.kafka.bootstrap_servers, remote))
        stack.enter_context(scene.flow(worker, alias, topic))
        paced = stack.enter_context(Paced(scene.source.bootstrap_servers, topic, _PER_S))
        tail.wait_for(0, PATIENCE_S)
        time.sleep(_WARM_S)
        first = len(paced.sent_s)
        time.sleep(scene.count)
        last = len(paced.sent_s) - 1
        tail.wait_for(last, PATIENCE_S)
    taken_ms = [(each.at_s - paced.sent_s[each.number]) * 1000 for each in tail.seen if first <= each.number <= last]
    return {f", p{share}": [percentile(taken_ms, share)] for share in (50, 99)}


def _killed(scene: MirrorScene) -> Samples:
    alias = scene.alias()
    topic = scene.source_topic(f"paced-{alias}")
    remote = scene.remote(alias, topic, 1)
    with ExitStack() as stack:
        group = stack.enter_context(scene.workers(2))
        tail = stack.enter_context(Tail(scene.kafka.bootstrap_servers, remote))
        stack.enter_context(scene.flow(group[0], alias, topic))
        stack.enter_context(Paced(scene.source.bootstrap_servers, topic, LINES_PER_S))
        tail.wait_for(0, PATIENCE_S)
        time.sleep(_REST_S)
        return {"": kill_owners(scene, group, alias, tail, rest_s=_REST_S)}


def _wide(scene: MirrorScene) -> Samples:
    alias, topics = scene.alias(), scene.wide(scene.count)
    with (
        scene.worker() as worker,
        MemorySampler(worker.pid) as memory,
        scene.flow(worker, alias, "wide-.*") as posted_s,
    ):
        flowing_s = scene.await_flowing([f"{alias}.{topic}" for topic in topics], PATIENCE_S)
    return {"": [flowing_s - posted_s], ", memory": [max(memory.samples_mb)]}


CASES = (
    Case("defaults", _moved, 2_000_000, 200_000, 3, ours=_BY_RECORDS),
    Case("tuned", _moved, 2_000_000, 200_000, 3, settings=_ALL, ours=_BY_RECORDS, theirs=_THEIRS),
    Case("large", _moved, 4_000_000, 200_000, 3, settings=_ALL, theirs=_THEIRS, batches=_LARGE),
    Case("small", _moved, 4_000_000, 200_000, 3, settings=_ALL, theirs=_THEIRS),
    Case("lz4", _moved, 4_000_000, 200_000, 3, settings=_ALL, theirs=_THEIRS, batches=Batches(262_144, "lz4")),
    Case("latency", _latency, 60, 5, 3),
    Case("killed", _killed, 10, 1, 1, peer=1),
    Case("wide", _wide, 500, 30, 1),
)


def _told(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _method() -> list[str]:
    own = {side: _told(config) for side, config in OWN.items()}
    sizes = {case.key: case.full for case in CASES}
    return [
        "Two brokers, the workers and the load share the machine; workers keep their topics in the target's broker. "
        f"Fencepost runs MirrorSinkConnector ({own['fencepost']}), Kafka Connect MirrorMaker 2's own connector "
        f"({own['connect']}), both exactly once, from a source that is read committed.",
        "Ours copies whole batches, as it does by default, unless the row says that it goes by records "
        "(producer.client=librdkafka).",
        f"Throughput: a topic of {sizes['defaults']:,} records of {WIDTH} bytes in {PARTITIONS} partitions "
        f"({sizes['large']:,} where batches are copied), in batches of 16 KiB without compression unless the row says "
        "otherwise, is mirrored once as a warm-up, and then again. The rate is all records, by the time from the first "
        f"one in the target's log until all are committed, asked every {EVERY_S * 1000:.0f} ms. Then each must be "
        "there once.",
        f"Latency: {_PER_S} records a second go to one partition for {sizes['latency']} s, after {_WARM_S:.0f} s that "
        "do not count; from the call of the producer until a read_committed consumer, which asks every "
        f"{ASK_EVERY_MS} ms, is handed the record.",
        f"Kills: {LINES_PER_S} records a second; SIGKILL to the worker with all below it at random moments (seed "
        f"{SEED}), {_REST_S:.0f} s after both were healthy. {sizes['wide']} topics: from the request that creates the "
        "connector, topics of the target included, until each of their partitions has a committed record.",
    ]
