"""A sink's converters and transforms of which some run in another process."""

from typing import Any

import pytest

from fencepost.api import FatalError, RecordError, SinkRecord, TopicPartition
from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.hook.hosted_task import HostLostError
from fencepost.kafka.value.fetched import Fetched
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.mixed_processing import MixedSinkProcessor, sink_processor
from fencepost.task.sink.processing import SinkProcessor
from support.hosted_parts import FarSide
from support.task_spec import lone_spec

P0 = TopicPartition("t", 0)
UPPER = {"transforms": "u", "transforms.u.type": "FarUpper"}
FAR_VALUE = {"value.converter": "FarConverter"}


def processor(side: FarSide, config: dict[str, str], *, tolerates_all: bool = False) -> SinkProcessor:
    spec = lone_spec("c", {}, transactional_id="t", producer_conf={}, offsets_topic="o", plugins="")
    tolerance = Tolerance(tolerates_all, 0, 1, False, False, Control(is_paused=False), "c-0")
    kinds: dict[str, Any] = {"key.converter": StringConverter, "value.converter": StringConverter}
    converters = [
        (side.classes[config[key]] if key in config else kinds.get(key, SimpleHeaderConverter))({"converter.type": key})
        for key in ("key.converter", "value.converter", "header.converter")
    ]
    chain = Chain.from_config(config, side.find)
    return sink_processor(spec, (chain, *converters, tolerance), config)  # type: ignore[arg-type]


def fetched(*values: bytes | None, headers: Any = None) -> Fetched:
    count = len(values)
    return Fetched([P0] * count, range(count), [7] * count, [b"k"] * count, list(values), headers)


def test_config_without_foreign_parts_uses_the_plain_processor() -> None:
    assert not isinstance(processor(FarSide(), {}), MixedSinkProcessor)


def test_batch_crosses_once_for_a_converter_and_its_following_transforms() -> None:
    side = FarSide()
    found = processor(side, UPPER | FAR_VALUE).process(fetched(b"a", b"drop", b"c"))
    assert [roles for roles, _ in side.crossed] == [["value", "transform"]]
    assert (list(found.values), list(found.offsets), list(found.keys)) == (["A", "C"], [0, 2], ["k", "k"])
    assert list(found.places) == [P0, P0]


def test_local_header_converter_splits_the_calls_to_the_other_process() -> None:
    side = FarSide()
    found = processor(side, UPPER | FAR_VALUE).process(fetched(b"a", b"b", headers=[[], [("h", b"x")]]))
    assert [roles for roles, _ in side.crossed] == [["value"], ["transform"]]
    assert list(found.values) == ["A", "B"]
    assert found.headers is not None
    assert [[(each.key, each.value) for each in one] for one in found.headers] == [[], [("h", "x")]]


def test_foreign_header_converter_shares_the_call_of_other_converters() -> None:
    side = FarSide()
    config = FAR_VALUE | {"header.converter": "FarHeaderConverter", "key.converter": "FarConverter"}
    found = processor(side, config | UPPER).process(fetched(b"a", headers=[[("h", b"x")]]))
    assert [roles for roles, _ in side.crossed] == [["key", "value", "header", "transform"]]
    assert found.headers is not None
    assert (found.keys[0], found.values[0], found.headers[0][0].value) == ("k", "A", "x")


def test_error_names_its_step_for_records_without_headers() -> None:
    side = FarSide()
    config = FAR_VALUE | {"header.converter": "FarHeaderConverter", "key.converter": "FarConverter"}
    config |= {"transforms": "u,v", "transforms.u.type": "FarUpper", "transforms.v.type": "FarUpper"}
    made = processor(side, config, tolerates_all=True)
    side.errors["B"] = [RecordError("bad")]
    assert list(made.process(fetched(b"a", b"b", b"c")).offsets) == [0, 2]
    side.errors[b"b"] = [RecordError("bad")]
    with pytest.raises(FatalError, match="stage 'KEY_CONVERTER'"):
        processor(side, config).process(fetched(b"b"))
    side.errors["B"] = [RecordError("bad")]
    with pytest.raises(FatalError, match="stage 'TRANSFORMATION'"):
        processor(side, config).process(fetched(b"b"))


def test_tolerated_error_drops_only_its_own_record() -> None:
    side = FarSide()
    made = processor(side, UPPER, tolerates_all=True)
    side.errors["b"] = [RecordError("bad")]
    assert list(made.process(fetched(b"a", b"b", b"c")).offsets) == [0, 2]
    assert made.tolerance.counters.skipped == 1
    side.errors["b"] = [RecordError("bad")]
    with pytest.raises(FatalError, match="topic t, partition 0, offset 1"):
        processor(side, UPPER).process(fetched(b"a", b"b"))
    side.lost = HostLostError("gone")
    with pytest.raises(HostLostError):
        made.process(fetched(b"a"))


def test_raw_record_is_available_after_its_batch() -> None:
    side = FarSide()
    made = processor(side, UPPER | FAR_VALUE)
    made.keeps.read = True
    [record] = made.process(fetched(b"a", headers=[[("h", b"007")]]))
    made.process(Fetched([P0], [9], [7], [b"k"], [b"b"]))
    found: SinkRecord = made.raw_of(record)
    assert (found.key, found.value, found.kafka_offset, found.timestamp) == (b"k", b"a", 0, 7)
    assert [(each.key, each.value) for each in found.headers] == [("h", b"007")]


def test_raw_bytes_of_a_record_made_by_the_task_come_from_the_converters() -> None:
    side = FarSide()
    made = processor(side, UPPER | FAR_VALUE)
    [record] = made.process(fetched(b"a", headers=[[("h", b"x")]]))
    assert made.raw_of(record).value == b"a"
    made.process(Fetched([P0], [9], [7], [b"k"], [b"b"]))
    found: SinkRecord = made.raw_of(record)
    assert (found.key, found.value, found.kafka_offset) == (b"k", b"far:A", 0)
    assert [(each.key, each.value) for each in found.headers] == [("h", b"x")]
    made.close()
    assert all(chain.is_closed for chain in side.chains)
