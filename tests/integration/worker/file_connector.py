"""Settings, files and connectors that the tests of a running worker share."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fencepost.testing.source import PLUGIN_PATH
from support.worker import Worker

Produce = Callable[..., None]
"""Writes numbers, from the first to the last, to a topic."""
PLUGINS = str(Path(__file__).parent / "plugins")
GRACE_MS = 2000


def settings_of_tests(**more: str) -> dict[str, str]:
    """Return what the workers of these tests have in common."""
    return {
        "plugin.path": f"{PLUGIN_PATH},{PLUGINS}",
        "task.shutdown.graceful.timeout.ms": str(GRACE_MS),
        "spark.master": "local[8]",
        "slots.max": "3",
        "config.providers": "expiring,hanging",
        "config.providers.hanging.class": "HangingProvider",
        "config.providers.expiring.class": "ExpiringProvider",
        **more,
    }


FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def file_source(file: Path, topic: str, **more: str) -> dict[str, Any]:
    """Return the config of a FileStreamSource; underscores in names of `more` stand for dots."""
    own = {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic}
    return own | {key.replace("_", "."): value for key, value in more.items()}


def numbered(first: int, last: int) -> list[str]:
    return [f"line {n}" for n in range(first, last + 1)]


def append(file: Path, lines: list[str]) -> None:
    with file.open("a") as out:
        out.write("".join(f"{line}\n" for line in lines))


def created(worker: Worker, name: str, config: Mapping[str, Any], **body: Any) -> None:
    """Create a connector; the answer says what is wrong where that fails."""
    answer = worker.create(name, config, **body)
    assert answer.status_code == 201, answer.text


FILES = "fencepost.connector.files_sink.FilesSink"


def files_sink(path: Path | str, topic: str, **settings: str) -> dict[str, str]:
    """Return the config of a files sink; two underscores in names of `settings` stand for a dot."""
    return {
        "connector.class": FILES,
        "path": str(path),
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "epoch.interval.ms": "500",
        "consumer.override.session.timeout.ms": "6000",
        "consumer.override.heartbeat.interval.ms": "500",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


def with_country(n: int) -> bytes:
    """Return the JSON of a number with a country, the same one for three of them."""
    return json.dumps({"n": n, "country": ["DE", "FR", "x/y z"][n // 3 % 3]}).encode()


def offsets(worker: Worker, name: str) -> dict[int, int]:
    """Return the committed offsets of a sink of one topic, by partition."""
    return {partition: offset for (_, partition), offset in worker.sink_offsets(name).items()}


def ensure_exact(found: list[tuple[int, int]], last: int) -> None:
    """Check that numbers 1 to `last` are there once, each in its partition, in order there."""
    twice = [n for n, count in Counter(n for _, n in found).items() if count > 1]
    assert not twice, twice[:10]
    assert {n for _, n in found} == set(range(1, last + 1))
    assert all(n % 3 == partition for partition, n in found)
    for partition in range(3):
        own = [n for p, n in found if p == partition]
        assert own == sorted(own)
