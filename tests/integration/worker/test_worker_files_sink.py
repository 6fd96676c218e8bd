"""Topics as files, on a running worker with Spark: every record once, in order, in files that are whole."""

import glob
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from file_connector import Produce, ensure_exact, files_sink, offsets, with_country

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.worker import Worker


@pytest.fixture
def partitions() -> int:
    return 3


@pytest.fixture
def value_of() -> Callable[[int], bytes]:
    return with_country


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def shown(out: Path, end: str) -> list[Path]:
    """Return the files that a reader finds, in the order of their names."""
    return sorted(map(Path, glob.glob(f"{out}/**/*{end}", recursive=True)))  # which looks into nothing hidden


def rows(out: Path) -> list[tuple[int, int]]:
    """Return (partition, n) of all rows of Parquet files, file by file."""
    found = []
    for path in shown(out, ".parquet"):
        partition = int(path.name.split("+")[1])
        found += [(partition, n) for n in pq.ParquetFile(path).read(["n"])["n"].to_pylist()]
    return found


def test_a_topic_becomes_parquet_files_named_by_their_offsets(
    worker: Worker, name: str, topic: str, produce: Produce, out: Path
) -> None:
    produce(1, 600)
    created = worker.create(name, files_sink(out, topic, value__schema="n INT, country STRING"))
    assert created.status_code == 201, created.text
    assert created.json()["type"] == "sink"
    eventually(lambda: offsets(worker, name) == {0: 200, 1: 200, 2: 200}, within_s=60)
    produce(601, 900)
    eventually(lambda: offsets(worker, name) == {0: 300, 1: 300, 2: 300}, within_s=60)
    ensure_exact(rows(out), 900)
    assert worker.task_states(name) == ["RUNNING"]
    first = pq.ParquetFile(shown(out, ".parquet")[0])
    assert [(field.name, str(field.type)) for field in first.schema_arrow] == [("n", "int32"), ("country", "string")]
    for path in shown(out, ".parquet"):
        start, end = (int(number) for number in path.name.split("+")[2].split(".")[0].split("-"))
        assert pq.ParquetFile(path).metadata.num_rows == end - start + 1
    left = out / ".fencepost"  # the list of the newest epoch alone
    eventually(lambda: [path.name for path in left.glob("**/*") if path.is_file()] == ["moves.json"], within_s=60)
    assert worker.rest.get(f"/connectors/{name}/topics").json() == {name: {"topics": [topic]}}


def test_directories_are_made_of_columns_and_keep_the_order_of_records(
    worker: Worker, name: str, topic: str, produce: Produce, out: Path
) -> None:
    produce(1, 900)
    settings = files_sink(
        out, topic, format="json", partition__by="country", file__rows__max="40", value__schema="n INT, country STRING",
        transforms__sql="SELECT value.n, value.country, offset FROM records WHERE value.n > 300",
    )  # fmt: skip
    assert worker.create(name, settings).status_code == 201
    eventually(lambda: offsets(worker, name) == {0: 300, 1: 300, 2: 300}, within_s=60)
    assert {path.parent.name for path in shown(out, ".json")} == {"country=DE", "country=FR", "country=x%2Fy z"}
    found = []
    for path in shown(out, ".json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert 0 < len(lines) <= 40
        assert all(set(line) == {"n", "offset"} for line in lines)
        found += [(line["offset"], line["n"]) for line in lines]
        assert found[-len(lines) :] == sorted(found[-len(lines) :])
    assert sorted(n for _, n in found) == list(range(301, 901))


def test_json_texts_become_lines_unchanged(
    worker: Worker, name: str, topic: str, kafka: EmbeddedKafka, out: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for value in (b'{"a": 1}', b'{\n  "b": [1,\r\n 2]\n}', b'{"c":\r3}', None):
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    assert worker.create(name, files_sink(out, topic, format="json")).status_code == 201
    eventually(lambda: offsets(worker, name).get(0) == 4, within_s=60)
    (path,) = shown(out, ".json")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"a": 1}, {"b": [1, 2]}, {"c": 3}, None,
    ]  # fmt: skip


@pytest.fixture
def listing(out: Path) -> Iterator[list[list[tuple[int, int]]]]:
    """Lists and reads the directory all the time; gives what was seen each time."""
    seen: list[list[tuple[int, int]]] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            seen.append(rows(out))

    thread = threading.Thread(target=read)
    thread.start()
    yield seen
    is_over.set()
    thread.join(30)


def test_a_reader_that_lists_all_the_time_sees_each_record_once(
    worker: Worker, name: str, topic: str, produce: Produce, out: Path, listing: list[list[tuple[int, int]]]
) -> None:
    settings = files_sink(out, topic, value__schema="n INT, country STRING", epoch__interval__ms="0")
    assert worker.create(name, settings).status_code == 201
    for first in range(1, 1_501, 300):
        produce(first, first + 299)
    eventually(lambda: offsets(worker, name) == {0: 500, 1: 500, 2: 500}, within_s=60)
    eventually(lambda: len(listing[-1]) == 1_500, within_s=30)
    for seen in listing:
        assert max(Counter(n for _, n in seen).values(), default=0) <= 1
    lengths = [len(seen) for seen in listing]
    assert lengths == sorted(lengths)
    ensure_exact(listing[-1], 1_500)


def test_small_pieces_are_rolled_into_large_files_before_a_reader_sees_any(
    worker: Worker, name: str, topic: str, produce: Produce, out: Path, listing: list[list[tuple[int, int]]]
) -> None:
    """One partition has enough for a file each time; of the others nothing is shown until they have."""
    settings = files_sink(out, topic, value__schema="n INT, country STRING", epoch__interval__ms="0")
    rolled = {"epoch.partition.rows.min": "120", "epoch.partition.wait.max.ms": "600000"}
    assert worker.create(name, {**settings, **rolled}).status_code == 201
    for number in range(1, 5):
        produce(1, 90)  # 30 each
        produce(1_000 * number, 1_000 * number + 89, partitions=1)
        eventually(lambda number=number: offsets(worker, name).get(0) == 120 * number, within_s=60)
        if number < 4:
            assert {partition for partition, _ in rows(out)} == {0}
    eventually(lambda: offsets(worker, name) == {0: 480, 1: 120, 2: 120}, within_s=60)
    spans = Counter((path.name.split("+")[1], path.name.split("+")[2][:41]) for path in shown(out, ".parquet"))
    ends = {"0": [(0, 119), (120, 239), (240, 359), (360, 479)], "1": [(0, 119)], "2": [(0, 119)]}
    assert spans == Counter((p, f"{first:020d}-{last:020d}") for p, all_ in ends.items() for first, last in all_)
    lengths = [len(seen) for seen in listing]
    assert lengths == sorted(lengths)
    assert Counter(rows(out)) == Counter(
        [(n % 3, n) for n in range(1, 91)] * 4 + [(0, 1_000 * k + n) for k in range(1, 5) for n in range(90)]
    )


@pytest.mark.parametrize(
    ("has_schemas", "values", "numbers"),
    [
        (False, [b'{"n": 3}', b'{"n": "many"}', b'{"n": 6}', b"", b"{", b"[1]"], [3, 6]),
        (True, [b'{"schema": null, "payload": {"n": 3}}', b'{"n": 4}', b'{"payload": {"n": 6}}', b"plain"], [3, 6]),
    ],
    ids=["plain", "with schemas"],
)
def test_a_value_that_fits_no_column_fails_the_task_or_is_dropped_if_tolerated(
    worker: Worker,
    name: str,
    topic: str,
    kafka: EmbeddedKafka,
    out: Path,
    has_schemas: bool,
    values: list[bytes],
    numbers: list[int],
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    enabled = str(has_schemas).lower()
    settings = files_sink(out, topic, value__schema="n INT", value__converter__schemas__enable=enabled)
    assert worker.create(name, settings).status_code == 201
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=90)
    trace = failed["trace"]
    assert f"{topic}-0 at offset 1: the value is not JSON that fits value.schema" in trace, trace
    assert shown(out, ".parquet") == []
    tolerant = {**settings, "errors.tolerance": "all"}
    assert worker.rest.put(f"/connectors/{name}/config", json=tolerant).status_code == 200
    eventually(lambda: offsets(worker, name).get(0) == len(values), within_s=60)
    assert rows(out) == [(0, number) for number in numbers]


def test_a_value_unfit_for_a_directory_name_fails_the_task_with_its_offset(
    worker: Worker, name: str, topic: str, kafka: EmbeddedKafka, out: Path
) -> None:
    long, longest = "x" * 300, "x" * 110 + "/" * 45  # each stroke takes three bytes: 8 + 110 + 135
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for country in ("DE", longest, long):
        producer.produce(topic, json.dumps({"n": 1, "country": country}).encode(), partition=0)
    assert producer.flush(30) == 0
    settings = files_sink(out, topic, value__schema="n INT, country STRING", partition__by="country")
    assert worker.create(name, settings).status_code == 201
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=90)
    trace = failed["trace"]
    told = f"partition.by=country: in {topic}-0, offsets 0 to 2 a value makes a directory name of more than 255 bytes"
    assert told in trace, trace
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{name}-dead"}
    tolerant = {**settings, **letters, "errors.deadletterqueue.topic.replication.factor": "1"}
    tolerant["errors.deadletterqueue.context.headers.enable"] = "true"
    assert worker.rest.put(f"/connectors/{name}/config", json=tolerant).status_code == 200
    eventually(lambda: offsets(worker, name).get(0) == 3, within_s=90)
    assert len(rows(out)) == 2
    with CommittedReader(kafka.bootstrap_servers, [f"{name}-dead"]) as reader:
        (letter,) = eventually(reader.seen, within_s=60)
    assert json.loads(letter.value or b"")["country"] == long


def test_a_sink_waits_for_an_unwritable_directory(
    worker: Worker, name: str, topic: str, produce: Produce, out: Path
) -> None:
    out.mkdir()
    out.chmod(0o500)
    produce(1, 60)
    assert worker.create(name, files_sink(out, topic, value__schema="n INT, country STRING")).status_code == 201
    eventually(lambda: "and retrying" in worker.status(name)["tasks"][0].get("trace", ""), within_s=60)
    task = worker.status(name)["tasks"][0]
    assert task["state"] == "RUNNING"
    assert str(out) in task["trace"].partition("\n")[0], task["trace"]

    def said(key: str) -> Any:
        return worker.rest.get(f"/connectors/{name}/figures").json()["tasks"][0][key]

    assert (said("retrying"), said("lag_max")) == (True, 20)
    out.chmod(0o700)
    eventually(lambda: offsets(worker, name) == {0: 20, 1: 20, 2: 20}, within_s=60)
    eventually(lambda: (said("retrying"), said("lag_max")) == (False, 0), within_s=60)
    ensure_exact(rows(out), 60)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("transforms", "a", "transforms does not apply to a DataFrame sink"),
        ("partition.by", "at:week", "it may end with :year, :month, :day, :hour"),
        ("format", "xml", "String must be one of"),
        ("epoch.partition.rows.min", "1000001", "is more than an epoch holds: lower it, or raise epoch.rows.max"),
        ("value.converter.schemas.enable", "true", "value.schema is missing"),
        ("errors.deadletterqueue.resend.topic.name", "again", "resend.topic.name does not apply to a DataFrame sink"),
    ],
)
def test_unsupported_settings_of_a_files_sink_are_refused(
    worker: Worker, name: str, topic: str, out: Path, key: str, value: str, text: str
) -> None:
    more = {"transforms.a.type": "org.apache.kafka.connect.transforms.Filter"} if key == "transforms" else {}
    answer = worker.create(name, {**files_sink(out, topic), key: value, **more})
    assert answer.status_code == 400
    assert text in answer.json()["message"]
