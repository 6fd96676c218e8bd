"""Apicurio's own Avro converter, in Java, with its registry: in chains of Python connectors, and in a Java source."""

import contextlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import ConnectRecord, Schema, SinkRecord, SourceRecord, TopicPartition
from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.port import ChainStart, ChainStep, HostOptions, JavaClass, Location, SourceTaskStart
from fencepost.builtin.java.start import start_host
from fencepost.hook.hosted_chain import RAW, Passed, Refused
from fencepost.record.schema import INT64, STRING, decimal
from support.java_plugins import CONVERTERS, file_class
from support.maven_plugin import fetched


def apicurio_converter() -> Location:
    directory = fetched("io.apicurio", ("apicurio-registry-utils-converter",), "2.6.13.Final")
    return Location(str(directory), tuple(sorted(map(str, directory.glob("*.jar")))))


NAME = "io.apicurio.registry.utils.converter.AvroConverter"
ORDER = Schema.struct({"id": INT64, "who": STRING.optional(), "total": decimal(2)}, name="Order")


@pytest.fixture(scope="module")
def host() -> Iterator[JavaHost]:
    with start_host(HostOptions(label="host of tests")) as started:
        yield started


@pytest.fixture(scope="module")
def settings(registry_url: str) -> dict[str, str]:
    url = registry_url.partition("/apis/")[0]
    return {"apicurio.registry.url": f"{url}/apis/registry/v2", "apicurio.registry.auto-register": "true"}


def converted(
    host: JavaHost, settings: dict[str, str], records: Sequence[ConnectRecord], *, is_source: bool
) -> Sequence[Any]:
    """Send records through the converter as the chain of a Python connector does."""
    config = {f"value.converter.{key}": value for key, value in settings.items()}
    step = ChainStep("value", JavaClass(NAME, apicurio_converter()), "value.converter.")
    with contextlib.closing(host.chain(ChainStart("made-0", is_source, config, [step]))) as chain:
        found = chain.run(records, 0, 1, None)
    assert isinstance(found, Passed), found.error if isinstance(found, Refused) else found
    return found.records


def as_read(topic: str, values: Sequence[bytes | None], headers: Sequence[Any] | None = None) -> list[SinkRecord]:
    """Return records of a topic with these values, and headers of bytes."""
    return [
        SinkRecord(
            topic, 0, n, data, RAW, None, RAW, headers=headers[n] if headers else (), at=TopicPartition(topic, 0)
        )
        for n, data in enumerate(values)
    ]


def test_python_sink_reads_records_of_a_python_source_with_apicurios_converter(
    host: JavaHost, settings: dict[str, str], topic_name: str
) -> None:
    values = [{"id": n, "who": None if n % 2 else "ada", "total": Decimal(n) / 4} for n in range(20)]
    given = [SourceRecord({}, None, topic_name, {**each}, ORDER) for each in values]
    written = converted(host, settings, given, is_source=True)
    assert {header.key for record in written for header in record.headers} >= {"apicurio.value.globalId"}
    raw = as_read(topic_name, [each.value for each in written], [each.headers for each in written])
    read = converted(host, settings, raw, is_source=False)
    assert [record.value for record in read] == values
    assert [field.name for field in read[0].value_schema.fields] == ["id", "who", "total"]
    assert read[0].value_schema.name == "Order"
    assert read[0].value_schema.fields[0].schema == INT64


def test_java_source_writes_with_apicurios_converter(
    host: JavaHost, settings: dict[str, str], topic_name: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    settings = settings | {"apicurio.registry.headers.enabled": "false"}
    own = {f"value.converter.{key}": value for key, value in settings.items()}
    task = host.source_task(
        SourceTaskStart(
            connector="made",
            task=0,
            java_class=file_class("FileStreamSourceTask"),
            task_config={"file": str(lines), "topic": topic_name, "batch.size": "10"},
            connector_config=CONVERTERS | {"value.converter": NAME} | own,
            classes={NAME: JavaClass(NAME, apicurio_converter())},
        )
    )
    try:
        polled = task.poll()
        assert polled is not None
        values = list(polled.batch.values)
    finally:
        task.stop(60)
    assert {data[:1] for data in values} == {b"\0"}
    read = converted(host, settings, as_read(topic_name, values), is_source=False)
    assert [record.value for record in read] == ["one", "two"]
