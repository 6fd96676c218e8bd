"""Configs that name classes of both languages: Java ones for Python connectors, and Python ones for Java connectors."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.chaos.sink_gates import SinkGates, Stop
from support.host_processes import hosts
from support.java_plugins import STRING
from support.worker import Worker

WITHIN_S = 240
PICKY = {"transforms": "picky", "transforms.picky.type": "tests.Picky"}
REVERSED = {"value.converter": "tests.ReversedConverter", "value.converter.prefix": "r:"}
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.context.headers.enable": "true",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


def created(worker: Worker, name: str, config: Mapping[str, str]) -> None:
    answer = worker.create(name, {"tasks.max": "1", "key.converter": STRING, **config})
    assert answer.status_code == 201, answer.text


def values(kafka: EmbeddedKafka, topic: str) -> list[bytes | None]:
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        return [one.value for one in reader.read_all(60)]


def gated(gates: SinkGates, name: str) -> dict[str, str]:
    """Return transforms: Picky, and one that the test can hold amid a batch."""
    own = {"type": "tests.GatedTransform", "connector": name, "gate": str(gates.port)}
    return PICKY | {"transforms": "picky,gated"} | {f"transforms.gated.{key}": value for key, value in own.items()}


def kill_held(worker: Worker, stop: Stop) -> None:
    """Kill the host in which a batch is held."""
    stop.await_held()
    assert stop.held is not None
    [host] = [each for each in hosts(worker) if each.pid == stop.held.pid]
    host.kill()
    stop.released.set()


def test_a_line_passes_java_and_kafka_once_when_the_host_is_killed_in_a_batch(
    worker: Worker, kafka: EmbeddedKafka, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """`bad` is refused by Java's transform, `drop` is filtered; each once, and nothing else is missing or doubled."""
    lines, out = tmp_path / "lines", tmp_path / "out"
    lines.write_text("one\nbad\ntwo\ndrop\n")
    letters, sink = f"{name}-letters", f"{name}-sink"
    more = LETTERS | {"errors.deadletterqueue.topic.name": letters}
    request.addfinalizer(lambda: worker.rest.delete(f"/connectors/{sink}"))
    with SinkGates() as gates:
        source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": name}
        created(worker, name, source | gated(gates, name) | REVERSED | more)
        eventually(lambda: values(kafka, name) == [b"r:eno", b"r:owt"], within_s=WITHIN_S)
        assert values(kafka, letters) == [b'"bad"']
        stop = gates.hold(name, "transform during")
        with lines.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(500))
        kill_held(worker, stop)
        expected = [b"r:eno", b"r:owt", *(f"r:{f'line {number}'[::-1]}".encode() for number in range(500))]
        eventually(lambda: len(values(kafka, name)) >= len(expected), within_s=WITHIN_S)
        assert values(kafka, name) == expected
        assert values(kafka, letters) == [b'"bad"']
        stop = gates.hold(sink, "transform during")
        config = {"connector.class": "FileStreamSink", "file": str(out), "topics": name}
        created(worker, sink, config | gated(gates, sink) | REVERSED)
        kill_held(worker, stop)
        eventually(lambda: out.exists() and len(out.read_text().splitlines()) >= len(expected), within_s=WITHIN_S)
        written = [line for line in lines.read_text().splitlines() if line not in ("bad", "drop")]
        assert out.read_text().splitlines() == written


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


def test_a_java_source_goes_through_python_and_java_again(worker: Worker, kafka: EmbeddedKafka, name: str) -> None:
    """Java's RegexRouter in the host, Python's Loud, Java's HoistField in a second crossing, Java's JsonConverter."""
    kafkas = "org.apache.kafka.connect.transforms."
    config = {
        "connector.class": "tests.NumberSourceConnector",
        "topic": name,
        "count": "20",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "route,loud,hoist",
        "transforms.route.type": f"{kafkas}RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-routed",
        "transforms.loud.type": "Loud",
        "transforms.hoist.type": f"{kafkas}HoistField$Value",
        "transforms.hoist.field": "n",
        "errors.deadletterqueue.topic.name": f"{name}-letters",
    } | LETTERS
    created(worker, name, config)
    expected = [f'{{"n":"0:{number}!"}}'.encode() for number in range(1, 21) if number != 3]
    eventually(lambda: len(values(kafka, f"{name}-routed")) >= len(expected), within_s=WITHIN_S)
    assert values(kafka, f"{name}-routed") == expected
    assert values(kafka, f"{name}-letters") == [b'"0:3"']
    offsets = worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    assert [one["offset"]["number"] for one in offsets] == [20]


def test_a_java_sink_gets_records_converted_by_python(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in (b"loud:a", b"quiet", b"loud:bad", b"loud:drop", b"loud:b"):
        producer.produce(name, value, partition=0)
    assert producer.flush(60) == 0
    config = {
        "connector.class": "tests.LinesSinkConnector",
        "topics": name,
        "file": str(out),
        "value.converter": "LoudConverter",
        "transforms": "loud,picky",
        "transforms.loud.type": "Loud",
        "transforms.loud.predicate": "never",
        "transforms.picky.type": "tests.Picky",
        "predicates": "never",
        "predicates.never.type": "TopicNameMatches",
        "predicates.never.pattern": "never",
        "errors.deadletterqueue.topic.name": f"{name}-letters",
    } | LETTERS
    created(worker, name, config)
    eventually(lambda: out.exists() and len(out.read_text().splitlines()) >= 2, within_s=WITHIN_S)
    assert out.read_text().splitlines() == [f"{name}-0@0 a", f"{name}-0@4 b"]
    eventually(
        lambda: sorted(map(str, values(kafka, f"{name}-letters"))) == ["b'loud:bad'", "b'quiet'"], within_s=WITHIN_S
    )
    eventually(lambda: worker.sink_offsets(name) == {(name, 0): 5}, within_s=WITHIN_S)
