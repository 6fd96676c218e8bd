"""A source's transforms and converters of which some run in another process."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fencepost.api import FatalError, Header, RecordError, RetriableError, SourceRecord
from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.hook.hosted_task import ForeignRecordError, HostedBatch, HostLostError, LeftOut, RecordBatch
from fencepost.record import Batch
from fencepost.record.schema import STRING
from fencepost.task.control import Control
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.source.mixed_processing import MixedProcessor, source_processor
from fencepost.task.source.processing import Processor
from support.hosted_parts import FarSide
from support.task_spec import lone_spec

UPPER = {"transforms": "u", "transforms.u.type": "FarUpper"}
ROUTE = {
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": ".*",
    "transforms.r.replacement": "routed",
}
FAR_VALUE = {"value.converter": "FarConverter"}


def processor(
    side: FarSide,
    config: dict[str, str],
    *,
    retry_ms: int = 0,
    tolerates_all: bool = False,
    takes_records: bool = False,
) -> Processor:
    spec = lone_spec("c", {}, transactional_id="t", producer_conf={}, offsets_topic="o", plugins="")
    tolerance = Tolerance(tolerates_all, retry_ms, 1, False, False, Control(is_paused=False), "c-0")
    kinds: dict[str, Any] = {"key.converter": StringConverter, "value.converter": StringConverter}
    converters = [
        (side.classes[config[key]] if key in config else kinds.get(key, SimpleHeaderConverter))({"converter.type": key})
        for key in ("key.converter", "value.converter", "header.converter")
    ]
    chain = Chain.from_config(config, side.find)
    made: Any = source_processor(spec, (chain, *converters, tolerance), config, takes_records=takes_records)  # type: ignore[arg-type]
    return made  # type: ignore[no-any-return]


def records(*values: Any, headers: Sequence[tuple[Header, ...]] | None = None) -> Batch:
    many = [
        SourceRecord({"p": 1}, {"n": n}, "t", value, headers=() if headers is None else headers[n])
        for n, value in enumerate(values)
    ]
    return Batch.of_records(many)[0]


def outgoing(made: Processor, batch: Batch) -> OutgoingColumns:
    found = made.process(batch)
    assert isinstance(found, OutgoingColumns)
    return found


def test_config_without_foreign_parts_uses_the_plain_processor() -> None:
    assert not isinstance(processor(FarSide(), {}), MixedProcessor)


def test_batch_crosses_once_for_transforms_and_their_following_converter() -> None:
    side = FarSide()
    made = processor(
        side, {"transforms": "u,v", "transforms.u.type": "FarUpper", "transforms.v.type": "FarUpper"} | FAR_VALUE
    )
    found = outgoing(made, records("a", "drop", "c"))
    assert side.crossed == [(["transform", "transform", "value"], ["a", "drop", "c"])]
    assert (list(found.values), found.sources) == ([b"far:A", b"far:C"], [0, 2])


def test_records_with_headers_cross_again_after_their_headers_are_converted() -> None:
    side = FarSide()
    made = processor(side, UPPER | FAR_VALUE)
    found = outgoing(made, records("a", "b", headers=[(), (Header("h", "x"),)]))
    assert side.crossed == [(["transform", "value"], ["a", "b"]), (["value"], ["B"])]
    assert list(found.values) == [b"far:A", b"far:B"]
    assert found.headers == [[], [("h", b"x")]]


def test_a_batch_crosses_once_for_each_change_of_side() -> None:
    side = FarSide()
    config = {"transforms": "u,r,v", "transforms.u.type": "FarUpper", "transforms.v.type": "FarUpper", **ROUTE}
    found = outgoing(processor(side, config), records("a"))
    assert [roles for roles, _ in side.crossed] == [["transform"], ["transform"]]
    assert (list(found.topics), list(found.values)) == (["routed"], [b"A"])


@pytest.mark.parametrize("is_far", [True, False])
def test_a_predicate_of_one_side_chooses_for_a_transform_of_the_other(is_far: bool) -> None:
    side = FarSide()
    far = {"transforms": "r", **ROUTE, "predicates.p.type": "FarIsLong"}
    near = UPPER | {
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": "other",
    }
    alias = "r" if is_far else "u"
    config = (far if is_far else near) | {"predicates": "p", f"transforms.{alias}.predicate": "p"}
    found = outgoing(processor(side, config), records("a", "long"))
    if is_far:
        assert (list(found.topics), list(found.values)) == (["t", "routed"], [b"a", b"long"])
        negated = config | {"transforms.r.negate": "true"}
        assert list(outgoing(processor(side, negated), records("a", "long")).topics) == ["routed", "t"]
    else:
        assert list(found.values) == [b"a", b"long"]


def test_tolerated_error_drops_its_record_and_steps_see_records_once() -> None:
    side = FarSide()
    made = processor(side, UPPER, tolerates_all=True)
    side.errors["b"] = [RecordError("bad")]
    found = outgoing(made, records("a", "b", "c"))
    assert (list(found.values), found.sources) == ([b"A", b"C"], [0, 2])
    assert len(side.crossed) == 1
    assert (made.tolerance.counters.skipped, made.tolerance.counters.failures) == (1, 1)


def test_an_error_that_is_not_tolerated_names_the_record() -> None:
    side = FarSide()
    side.errors["b"] = [RecordError("bad")]
    with pytest.raises(
        FatalError, match=r"'TRANSFORMATION' failed for the record for topic t, .*'n': 1.*RecordError: bad"
    ):
        outgoing(processor(side, UPPER), records("a", "b"))


def test_step_is_retried_only_within_the_retry_timeout() -> None:
    side = FarSide()
    made = processor(side, UPPER | FAR_VALUE, retry_ms=60_000)
    side.errors["A"] = [RetriableError("later"), RetriableError("later")]
    found = outgoing(made, records("a", "b"))
    assert list(found.values) == [b"far:A", b"far:B"]
    assert made.tolerance.counters.retries == 2
    side.errors["b"] = [RetriableError("later")]
    with pytest.raises(FatalError, match="later"):
        outgoing(processor(side, UPPER), records("a", "b"))


def test_a_retry_may_meet_another_error_of_a_later_step_or_record() -> None:
    side = FarSide()
    made = processor(side, UPPER | FAR_VALUE, retry_ms=60_000, tolerates_all=True)
    side.errors["a"] = [RetriableError("later")]
    side.errors["A"] = [RecordError("bad")]
    side.errors["b"] = [RetriableError("later"), RecordError("bad")]
    found = outgoing(made, records("a", "b", "c"))
    assert (list(found.values), found.sources) == ([b"far:C"], [2])
    assert made.tolerance.counters.skipped == 2


def test_unsendable_value_drops_only_its_own_record() -> None:
    side = FarSide()
    made = processor(side, UPPER, tolerates_all=True)
    found = outgoing(made, records("a", "unsendable", "b", "c"))
    assert (list(found.values), found.sources) == ([b"A", b"B", b"C"], [0, 2, 3])
    assert made.tolerance.counters.skipped == 1


def test_loss_of_the_other_process_is_not_tolerated_as_a_record_error() -> None:
    side = FarSide()
    made = processor(side, UPPER, tolerates_all=True)
    side.lost = HostLostError("gone")
    with pytest.raises(HostLostError):
        outgoing(made, records("a"))
    side.lost = None
    side.errors["a"] = [RecordError("bad"), HostLostError("gone")]
    again = processor(side, UPPER, retry_ms=60_000, tolerates_all=True)
    side.errors["a"] = [RetriableError("later"), HostLostError("gone")]
    with pytest.raises(HostLostError):
        outgoing(again, records("a"))


def test_records_of_a_host_keep_their_schemas_and_its_drops_are_counted() -> None:
    side = FarSide()
    made = processor(side, UPPER, tolerates_all=True, takes_records=True)
    given = [SourceRecord({"p": 1}, None, "t", value, STRING if value == "b" else None) for value in ("a", "b", "c")]
    batch = RecordBatch.holding(given, [({"p": 1}, {"n": 9})])
    error = ForeignRecordError.of("E", "bad", "C")
    found = outgoing(made, HostedBatch.of(batch, [LeftOut(0, "TRANSFORMATION", error, {"n": 1})]))
    assert (list(found.values), found.sources) == ([b"B", b"C"], [1, 2])
    assert made.tolerance.counters.skipped == 1
    assert list(outgoing(processor(side, {}, takes_records=True), batch).values) == [b"a", b"b", b"c"]


def test_the_chain_is_opened_once_and_ended() -> None:
    side = FarSide()
    made = processor(side, UPPER)
    made.open()
    outgoing(made, records("a"))
    [chain] = side.chains
    made.abandon()
    made.close()
    assert (chain.is_abandoned, chain.is_closed) == (True, True)


def test_lone_surrogate_in_a_header_name_becomes_a_question_mark() -> None:
    found = outgoing(processor(FarSide(), UPPER), records("a", "b", headers=[(Header("\ud800x", "1"),), ()]))
    assert found.headers == [[("?x", b"1")], []]
    assert found.about_bytes() > 0


def test_keys_headers_and_an_empty_batch_are_converted() -> None:
    side = FarSide()
    config = {"key.converter": "FarConverter", "header.converter": "FarHeaderConverter"}
    made = processor(side, config)
    batch = replace(records("a", headers=[(Header("h", "x"),)]), keys=["k"])
    found = outgoing(made, batch)
    assert (list(found.keys or ()), found.headers) == ([b"far:k"], [[("h", b"far:x")]])
    assert list(found.values) == [b"a"]
    assert side.crossed == [(["header", "key"], [None])]
    assert len(outgoing(made, Batch((), (), (), (), ends=[({"p": 1}, {"n": 9})]))) == 0
