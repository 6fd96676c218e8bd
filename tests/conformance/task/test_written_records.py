"""A source sees which of its records are in their topics already, on a real broker."""

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fencepost.api import SourceRecord
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.plain import SimpleHeaderConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.plugin import find
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.source.processing import Processor
from fencepost.task.source.written import WrittenRecords
from fencepost.testing import eventually
from support.log_writer import LogWriter

ROUTER = {
    "transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": "(.*)-here",
    "transforms.r.replacement": "$1",
}  # fmt: skip


OF_LIBRDKAFKA = {"socket.keepalive.enable": "true"}
"""A setting that only librdkafka's consumer has, which then reads the topics."""


def written(kafka: EmbeddedKafka, own: Mapping[str, str]) -> WrittenRecords:
    key, value = (JsonConverter({"converter.type": each, "schemas.enable": "false"}) for each in ("key", "value"))
    tolerance = Tolerance(False, 0, 1, False, False, Control(is_paused=False), "c-0")
    processor = Processor(Chain.from_config(ROUTER, find), key, value, SimpleHeaderConverter({}), tolerance)
    conf = {"bootstrap.servers": kafka.bootstrap_servers, **own}
    return WrittenRecords(TaskSpec("c", 0, 1, "i", {}, {}, OutputSpec(conf, "offsets", admin_conf=conf)), processor)


def is_at(lsn: int) -> Callable[[Any], bool]:
    return lambda value: value == {"lsn": lsn}


@pytest.mark.parametrize("own", [{}, OF_LIBRDKAFKA])
def test_written_records_are_found_once_by_key_and_value_after_transforms(
    kafka: EmbeddedKafka, own: dict[str, str]
) -> None:
    writer = LogWriter(kafka.bootstrap_servers)
    topic = writer.topic(f"written-{uuid.uuid4().hex}")
    ones = [(1, 5), (1, None), (1, 9), (2, 9), (2, None), (3, 9), (3, 9)]
    with writer.transaction() as producer:
        for key, lsn in ones:
            value = None if lsn is None else json.dumps({"lsn": lsn}).encode()
            producer.produce(topic, value, b'{"id":%d}' % key)
    writer.write(topic, [json.dumps({"lsn": 9})], key=b'{"id":4}', is_committed=False)
    found = written(kafka, own)

    def has(key: int, lsn: int | None, to: str = topic) -> bool:
        value = None if lsn is None else {"lsn": lsn}
        return found.has(SourceRecord({}, None, f"{to}-here", value, key={"id": key}), is_at(lsn or 0))

    assert has(1, 9)
    assert not has(1, None)  # its tombstone is older
    assert has(2, None)
    assert not has(2, 8)
    assert [has(3, 9) for _ in range(3)] == [True, True, False]
    assert not has(4, 9)
    assert not has(1, 9, to="missing")
    offsets = GroupOffsets({"bootstrap.servers": kafka.bootstrap_servers}, "fencepost-look")
    eventually(lambda: offsets.read() == {}, within_s=60)  # a look leaves none
