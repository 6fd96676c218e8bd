"""What flows under load while their worker is killed: a sink, a mirror, a files sink. Only ours is measured."""

import glob
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench import files, mirror_scene, sink
from bench.lines import FILLING, line
from bench.mirror_scene import Paced
from bench.options import say
from bench.side import SIDES, Side
from bench.tail import Tail
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually

_PER_S = 200
_STEADY_S = (3.0, 5.0)
_DEAD_S = 0.25
"""What is seen up to here was shown before the kill; nobody is back so soon."""
_PATIENCE_S = 200.0
_LOOK_S = 0.01

Seen = Callable[[], int]


@dataclass(frozen=True)
class Flow:
    """A connector, how to see that it has got on, and the topic that feeds it."""

    config: Mapping[str, str]
    seen: Seen
    source: EmbeddedKafka
    value: Callable[[int], bytes] = lambda number: line(number, FILLING, sink.WIDTH).encode()


def kills_of_flow(kafka: EmbeddedKafka, directory: Path, kind: str, count: int, moments: Random) -> list[float]:
    """Kill the worker of a flow under load; returns how long it took each time until something new was shown."""
    found = []
    with SIDES["fencepost"](kafka.bootstrap_servers, directory) as side, FLOWS[kind](kafka, directory, side) as flow:
        Admin({"bootstrap.servers": flow.source.bootstrap_servers}).topics.create(
            side.group, partitions=1, replication=1
        )
        with Paced(flow.source.bootstrap_servers, side.group, _PER_S, flow.value):
            side.create(side.group, flow.config)
            _await_more(flow.seen, 0)
            for number in range(count):
                time.sleep(moments.uniform(*_STEADY_S))
                at_s = time.monotonic()
                side.kill()
                side.start(is_waiting=False)
                time.sleep(max(0.0, at_s + _DEAD_S - time.monotonic()))
                found.append(_await_more(flow.seen, flow.seen()) - at_s)
                say(f"recovery of a {kind} {number + 1}/{count} {found[-1]:.2f} s, load {os.getloadavg()[0]:.1f}")
    return found


def _await_more(seen: Seen, than: int) -> float:
    """Wait until more is seen; returns when (monotonic) that was."""
    eventually(lambda: seen() > than, within_s=_PATIENCE_S, every_s=_LOOK_S)
    return time.monotonic()


@contextmanager
def _sink(kafka: EmbeddedKafka, directory: Path, side: Side) -> Iterator[Flow]:
    out = directory / f"{side.group}.out"
    config = {"connector.class": sink.FILE_SINK, "topics": side.group, "file": str(out)}
    yield Flow(config, lambda: out.stat().st_size if out.exists() else 0, kafka)


@contextmanager
def _files(kafka: EmbeddedKafka, directory: Path, side: Side) -> Iterator[Flow]:
    out = directory / f"{side.group}-files"
    config = {
        "connector.class": files.SINK, "topics": side.group, "path": str(out), "format": "json",
        "value.schema": "n INT",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
    }  # fmt: skip
    value: Callable[[int], bytes] = lambda number: json.dumps({"n": number}).encode()  # noqa: E731
    yield Flow(config, lambda: len(glob.glob(f"{out}/*.json")), kafka, value)


@contextmanager
def _mirror(kafka: EmbeddedKafka, directory: Path, side: Side) -> Iterator[Flow]:
    del directory
    remote = f"source.{side.group}"
    with EmbeddedKafka() as source:
        config = {
            **mirror_scene.OWN["fencepost"],
            "topics": side.group,
            "source.cluster.alias": "source",
            "source.cluster.bootstrap.servers": source.bootstrap_servers,
            "target.cluster.bootstrap.servers": kafka.bootstrap_servers,
            "source.consumer.isolation.level": "read_committed",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
        }
        Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(remote, partitions=1, replication=1)
        with Tail(kafka.bootstrap_servers, remote) as tail:  # an end of the log would move with an abort's marker, too
            yield Flow(config, lambda: len(tail.seen), source)


FLOWS = {"sink": _sink, "mirror": _mirror, "files": _files}
TARGETS_S = {"sink": 6, "mirror": 6, "files": 8}
