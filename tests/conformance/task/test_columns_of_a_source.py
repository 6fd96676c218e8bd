"""A file's lines reach Kafka as columns where the client takes them, and are what they are as records."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.columns import binary
from fencepost.kafka.produce import batch_records
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.setting.table import BATCH, CLIENT, LIBRDKAFKA
from fencepost.record import BinaryColumn
from fencepost.record.java_value import java_decoded
from fencepost.spark.row.columns import RecordMaker
from fencepost.task.delivery.lanes import open_delivery
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.late.lone_task import LoneTask

BATCH_LINES = 700
MIXED = [b"", b"plain", b"\xff\xfe no text", "z\u00f6lf".encode(), b" \t ", b"x" * 9_000, b'{"a": 1}']

Run = Callable[..., LoneTask]


@pytest.fixture
def run(kafka: EmbeddedKafka, topic_name: str) -> Iterator[Run]:
    """Runs FileStreamSource; each run has topics of its own, by the name of its client."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    tasks: list[LoneTask] = []

    def run(name: str, file: Path, **how: object) -> LoneTask:
        topic = f"{topic_name}-{name}"
        for each in (topic, f"{topic}-offsets"):
            admin.topics.create(each, partitions=1, replication=1)
        source = {"connector.class": "FileStreamSource", "file": str(file), "batch.size": str(BATCH_LINES)}
        properties = source | dict(how.pop("properties", {}))  # type: ignore[call-overload]
        task = LoneTask(
            kafka.bootstrap_servers,
            topic,
            f"{topic}-offsets",
            (),
            conf={CLIENT: name},
            properties=properties,
            **how,  # type: ignore[arg-type]
        )
        tasks.append(task)
        task.start()
        return task

    yield run
    for task in tasks:
        task.stop()


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values the batch client was given in each column; nobody may make objects of them."""
    counts: list[int] = []

    def look(column: BinaryColumn) -> list[bytes | None]:
        raise AssertionError(f"{len(column)} values become objects")

    def noted(values: Sequence[bytes | None]) -> Any:
        if isinstance(values, BinaryColumn):
            counts.append(len(values))
        return binary(values)

    monkeypatch.setattr(BinaryColumn, "_looked_at", look)
    monkeypatch.setattr(batch_records, "binary", noted)
    return counts


def content(ending: bytes, count: int = 6_000) -> bytes:
    """Lines of all kinds; the last one has no end yet, and the first one is no mark of UTF-16, which is refused."""
    chosen = random.Random(5).choices(MIXED, [9, 9, 3, 3, 3, 1, 3], k=count)
    return b"".join(line + ending for line in [b"first", *chosen]) + b"unfinished"


def read(kafka: EmbeddedKafka, task: LoneTask, end: int) -> tuple[list[bytes | None], list[int]]:
    """Return what is committed once the position is `end`, and every position on the way."""

    def is_over() -> bool:
        assert task.failure is None, task.failure
        return task.position("position") == end

    eventually(is_over, within_s=60)
    values, offsets = (
        [seen.value for seen in CommittedReader(kafka.bootstrap_servers, [topic]).read_all(30)]
        for topic in (task.spec.connector, task.spec.output.offsets_topic)
    )
    return values, [json.loads(offset or b"")["position"] for offset in offsets]


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_lines_sent_as_columns_have_the_same_values_and_offsets_as_records(
    kafka: EmbeddedKafka, run: Run, tmp_path: Path, ending: bytes, lanes: int, columns: list[int]
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(content(ending))
    lines = file.read_bytes().split(ending)[:-1]
    ends = list(accumulate(len(line) + len(ending) for line in lines))
    by_columns, by_records = (read(kafka, run(name, file, lanes=lanes), ends[-1]) for name in (BATCH, LIBRDKAFKA))
    assert by_columns == by_records
    values, positions = by_columns
    assert values == [java_decoded(line).encode() for line in lines]  # what is not UTF-8 is U+FFFD, as in Kafka Connect
    assert sum(columns) == len(lines)
    assert positions == sorted(set(positions) & set(ends))
    if ending != b"\r":  # else lines of one chunk are not put together with those of another
        assert positions == [*ends[BATCH_LINES - 1 :: BATCH_LINES], ends[-1]]


def test_transaction_cut_at_the_buffer_limit_is_complete(
    kafka: EmbeddedKafka, run: Run, tmp_path: Path, columns: list[int]
) -> None:
    lines = [b"%07d " % number + b"x" * (200 + number % 300) for number in range(8 * BATCH_LINES)]
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(lines) + b"\n")
    room = 100_000
    assert sum(map(len, lines[:BATCH_LINES])) > 2 * room
    values, positions = read(kafka, run(BATCH, file, lanes=2, batch_bytes=room), file.stat().st_size)
    assert values == lines
    assert len(positions) == 8
    assert sum(columns) == len(lines)


def test_lines_become_records_when_a_transform_needs_records(kafka: EmbeddedKafka, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(content(b"\n", 1_500))
    end = file.stat().st_size - len(b"unfinished")
    properties = {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "gone",
        "predicates": "gone",
        "predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    by_columns, by_records = (read(kafka, run(name, file, properties=properties), end) for name in (BATCH, LIBRDKAFKA))
    assert by_columns == by_records


FRAMES = {
    "values": {"value": ["a", "", None, "z\u00f6lf"]},
    "keys": {"value": [b"a", b"\xff", None], "key": ["k", None, "l"]},
    "json": {"a": [1, None, 3], "b": ["x", "y", None]},
}


@pytest.mark.parametrize("frame", FRAMES)
def test_spark_rows_are_sent_as_columns(kafka: EmbeddedKafka, topic_name: str, frame: str, columns: list[int]) -> None:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for each in (topic_name, f"{topic_name}-offsets"):
        admin.topics.create(each, partitions=1, replication=1)
    batch = pa.record_batch({name: pa.array(values) for name, values in FRAMES[frame].items()})
    conf = transactional_conf({"bootstrap.servers": kafka.bootstrap_servers, "client": BATCH}, "unused").conf
    delivery = open_delivery(conf, f"of-{topic_name}", f"{topic_name}-offsets", 30)
    try:
        delivery.send(RecordMaker(batch.schema.names, topic_name).outgoing(batch))
        delivery.commit([(b"where", b"1")])
    finally:
        delivery.close()
    found = [(seen.key, seen.value) for seen in CommittedReader(kafka.bootstrap_servers, [topic_name]).read_all(30)]
    assert found == expected(batch.to_pylist())
    assert columns == [batch.num_rows] * (2 if "key" in batch.schema.names else 1)


def expected(rows: list[dict[str, Any]]) -> list[tuple[bytes | None, bytes | None]]:
    if "value" not in rows[0]:
        return [(None, json.dumps(row, separators=(",", ":")).encode()) for row in rows]
    return [
        tuple(each.encode() if isinstance(each, str) else each for each in (row.get("key"), row["value"]))
        for row in rows
    ]  # type: ignore[misc]
