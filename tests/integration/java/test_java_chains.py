"""Python connectors whose configs name Java transforms and converters."""

from collections.abc import Mapping
from pathlib import Path

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.host_processes import hosts
from support.worker import Worker

WITHIN_S = 240
STRING = "org.apache.kafka.connect.storage.StringConverter"
PICKY = {"transforms": "picky", "transforms.picky.type": "tests.Picky"}
REVERSED = {"value.converter": "tests.ReversedConverter", "value.converter.prefix": "r:"}


def created(worker: Worker, name: str, config: Mapping[str, str]) -> None:
    answer = worker.create(name, {"tasks.max": "1", "key.converter": STRING, **config})
    assert answer.status_code == 201, answer.text


def values(kafka: EmbeddedKafka, topic: str) -> list[bytes | None]:
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        return [one.value for one in reader.read_all(60)]


def test_a_line_goes_through_java_to_kafka_and_back_whoever_kills_the_host(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    """`bad` is refused by Java's transform, `drop` is filtered; each once, and nothing else is missing or doubled."""
    lines, out = tmp_path / "lines", tmp_path / "out"
    lines.write_text("one\nbad\ntwo\ndrop\n")
    letters = f"{name}-letters"
    more = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": name}
    created(worker, name, source | PICKY | REVERSED | more)
    eventually(lambda: values(kafka, name) == [b"r:eno", b"r:owt"], within_s=WITHIN_S)
    with CommittedReader(kafka.bootstrap_servers, [letters]) as reader:
        [letter] = list(reader.read_all(60))
    assert letter.value == b'"bad"'
    before = hosts(worker)
    assert before
    for each in before:
        each.kill()
    with lines.open("a") as file:
        file.writelines(f"line {number}\n" for number in range(500))
    expected = [b"r:eno", b"r:owt", *(f"r:{f'line {number}'[::-1]}".encode() for number in range(500))]
    eventually(lambda: len(values(kafka, name)) >= len(expected), within_s=WITHIN_S)
    assert values(kafka, name) == expected
    sink = f"{name}-sink"
    try:
        config = {"connector.class": "FileStreamSink", "file": str(out), "topics": name} | PICKY | REVERSED
        created(worker, sink, config)
        eventually(lambda: out.exists() and len(out.read_text().splitlines()) >= len(expected), within_s=WITHIN_S)
        assert out.read_text().splitlines() == [
            line for line in lines.read_text().splitlines() if line not in ("bad", "drop")
        ]
    finally:
        worker.rest.delete(f"/connectors/{sink}")


def test_settings_of_java_parts_are_validated_and_shown(worker: Worker, name: str) -> None:
    wrong = {
        "name": name,
        "connector.class": "FileStreamSource",
        "topic": name,
        "transforms": "picky",
        "transforms.picky.type": "tests.Picky",
        "transforms.picky.troubles": "many",
    } | REVERSED
    report = worker.rest.put("/connector-plugins/FileStreamSource/config/validate", json=wrong).json()
    found = {one["value"]["name"]: one for one in report["configs"]}
    [fault] = found["transforms.picky.troubles"]["value"]["errors"]
    assert "many" in fault
    assert found["value.converter.prefix"]["value"]["value"] == "r:"
    listed = worker.rest.put(
        "/connector-plugins/FileStreamSource/config/validate", json=wrong | {"transforms.picky.type": "Nothing"}
    )
    assert "Class Nothing could not be found" in listed.text
