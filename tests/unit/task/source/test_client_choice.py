"""Which client writes a source's transactions where nobody has said which."""

from dataclasses import replace
from typing import Any

import pytest

from fencepost.api import Form
from fencepost.kafka.produce.producer import sends_batches
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.setting.table import BATCH, CLIENT
from fencepost.plugin import find
from fencepost.task.channel.split_message import SplitRun
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.delivery.lane import HELD_BYTES, HELD_COLUMNS_BYTES, QueueLimits, held_bytes
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.source.mixed_processing import processor_of
from fencepost.task.source.processing import Processor, batches_refusal, chosen_conf, split_conf

STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
ROUTER = {
    "transforms": "t",
    "transforms.t.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.t.regex": "a",
    "transforms.t.replacement": "b",
}
TEXT = {"value.converter": STRING}
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
FILTER = {"transforms": "t", "transforms.t.type": "org.apache.kafka.connect.transforms.Filter"}
CHAIN = {
    **JSON,
    "transforms": "h,t",
    "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.h.field": "line",
    "transforms.t.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.t.topic.field": "topic",
}
OTHERS = {
    **TEXT,
    "transforms": "t",
    "transforms.t.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.t.topic.field": "topic",
}  # text has no fields


def task(producer: dict[str, str] | None = None, **properties: str) -> TaskSpec:
    conf = dict(transactional_conf({"bootstrap.servers": "a:1", **(producer or {})}, "id").conf)
    del conf["transactional.id"]
    converters = {"key.converter": BYTES, "value.converter": BYTES, "header.converter": BYTES}
    return TaskSpec(
        "c",
        0,
        1,
        "i",
        {"name": "c", "connector.class": "C", **converters, **properties},
        {},
        output=OutputSpec(conf, "offsets", transactional_id="id", chooses_client=True),
    )


def chosen(spec: TaskSpec, form: Form, *, reads_batches: bool = False) -> bool:
    return sends_batches(chosen_conf(spec, form, lambda: processor(spec), reads_batches=reads_batches))


def processor(spec: TaskSpec) -> Processor:
    return processor_of(spec, Control(is_paused=False), ErrorCounters())


@pytest.mark.parametrize(
    ("properties", "columns", "batches"),
    [
        ({}, True, True),
        (TEXT, True, False),
        (JSON, True, False),
        ({**TEXT, "value.converter.converter.encoding": "ISO-8859-1"}, False, False),
        (ROUTER, True, False),
        (FILTER, True, False),
        (CHAIN, True, False),
        (OTHERS, False, False),
        ({"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}, True, False),
    ],
    ids=[
        "bytes",
        "text",
        "json",
        "other text",
        "topics alone",
        "a filter",
        "a chain",
        "a chain that needs structs",
        "other headers",
    ],
)
def test_unchanged_columns_and_batches_are_written_by_the_batch_client(
    properties: dict[str, str], columns: bool, batches: bool
) -> None:
    spec = task(**properties)
    assert (chosen(spec, Form.COLUMNS), chosen(spec, Form.RECORDS, reads_batches=True)) == (columns, batches)


def test_client_for_records_is_chosen_without_making_transforms() -> None:
    def fail() -> Any:
        raise AssertionError("asked")

    assert not sends_batches(chosen_conf(task(), Form.RECORDS, fail))


def test_setting_that_the_batch_client_lacks_selects_librdkafka() -> None:
    assert not chosen(task({"statistics.interval.ms": "1000"}), Form.COLUMNS)


@pytest.mark.parametrize("wrong", [{"bootstrap.servers": "a:b"}, {"security.protocol": "SSL", "ssl.ca.location": "/"}])
def test_value_that_the_batch_client_cannot_use_selects_librdkafka(wrong: dict[str, str]) -> None:
    spec = task()
    assert not chosen(
        replace(spec, output=replace(spec.output, producer_conf={**spec.output.producer_conf, **wrong})), Form.COLUMNS
    )


def test_compression_applies_to_columns_and_batches_keep_their_own() -> None:
    spec = task({"compression.type": "lz4"})
    assert chosen(spec, Form.COLUMNS)
    assert not chosen(spec, Form.RECORDS, reads_batches=True)


def test_task_without_transactions_uses_librdkafka() -> None:
    assert not chosen(replace(task(), output=replace(task().output, transactional_id=None)), Form.COLUMNS)


def test_reason_for_decoding_batches_is_given() -> None:
    spec = task()
    by_batches = {**spec.output.producer_conf, CLIENT: BATCH}
    assert batches_refusal(spec, by_batches, processor(spec)) is None
    assert batches_refusal(spec, spec.output.producer_conf, processor(spec)) == "producer.client is librdkafka"
    refusal = batches_refusal(spec, {**by_batches, "compression.type": "zstd"}, processor(spec))
    assert refusal is not None
    assert "compression.type is zstd" in refusal


@pytest.mark.parametrize("name", ["FileStreamSource", "VerifiableSource"])
def test_connector_declares_the_form_of_its_records(name: str) -> None:
    wanted = Form.COLUMNS if name == "FileStreamSource" else Form.RECORDS
    assert find("connector", name).task.form(None) is wanted


@pytest.mark.parametrize("name", ["MirrorSourceConnector", "MirrorSinkConnector"])
def test_mirror_gives_batches_unless_their_reader_lacks_a_consumer_setting(name: str) -> None:
    mirror = find("connector", name)
    ends = {"alias": "{}", "bootstrap.servers": "{}:1"}
    clusters = {f"{at}.cluster.{key}": text.format(at) for at in ("source", "target") for key, text in ends.items()}

    def reads_batches(**own: str) -> bool:
        found: bool = mirror.task.reads_batches(
            mirror({"name": "m", **clusters, "transaction.producer": "true", **own})
        )
        return found

    assert reads_batches()
    assert not reads_batches(**{"source.consumer.statistics.interval.ms": "1000"})


def test_lane_of_the_batch_client_buffers_more_bytes() -> None:
    conf = {**task().output.producer_conf, CLIENT: BATCH}
    assert QueueLimits.made_in(conf).size_bytes == held_bytes(conf) == HELD_COLUMNS_BYTES
    plain = task().output.producer_conf
    assert QueueLimits.made_in(dict(plain)).size_bytes == held_bytes(plain) == HELD_BYTES


def test_split_uses_the_batch_client_in_transactions_if_settings_allow() -> None:
    def run(conf: dict[str, Any], transactional_id: str | None = "id", **how: Any) -> bool:
        return sends_batches(split_conf(SplitRun("r", conf, "t", "o", (b"k",), transactional_id, **how)))

    conf = dict(task().output.producer_conf)
    assert run(conf, chooses_client=True)
    assert not run(conf, chooses_client=False)
    assert run({**conf, CLIENT: BATCH}, chooses_client=False)
    assert not run(conf, None, chooses_client=True)
    assert not run({**conf, "sasl.mechanism": "GSSAPI", "security.protocol": "sasl_plaintext"}, chooses_client=True)
