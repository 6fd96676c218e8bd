"""A source task in a real host: what `poll` gives, what is committed, and what the task is told of it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import Batch, RecordMetadata
from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.client.session import HostedSourceTask
from fencepost.builtin.java.error import JavaError, JavaRetriableError
from fencepost.builtin.java.port import CommittedOffsets, Failure, JavaClass, Location, Mark, Polled, SourceTaskStart
from fencepost.record import HeaderColumn, Repeated, Runs
from fencepost.testing import eventually
from support.java_plugins import CONVERTERS, file_class, tool_class, with_transforms

Started = Callable[..., HostedSourceTask]
JSON = "org.apache.kafka.connect.json.JsonConverter"
CONNECT = "org.apache.kafka.connect.transforms"


@pytest.fixture
def started(host: JavaHost) -> Iterator[Started]:
    tasks: list[HostedSourceTask] = []

    def start(
        java_class: JavaClass,
        task_config: Mapping[str, str],
        connector_config: Mapping[str, str] | None = None,
        **start: Any,
    ) -> HostedSourceTask:
        config = CONVERTERS | dict(connector_config or {})
        tasks.append(
            host.source_task(
                SourceTaskStart(
                    connector="made",
                    task=0,
                    java_class=java_class,
                    task_config=task_config,
                    connector_config=config,
                    **start,
                )
            )
        )
        return tasks[-1]

    yield start
    for task in tasks:
        task.stop(60)


@pytest.fixture
def scripted(started: Started, plugins: Location, diary: Path) -> Callable[..., HostedSourceTask]:
    def start(polls: str, connector_config: Mapping[str, str] | None = None, **start: Any) -> HostedSourceTask:
        properties = {"polls": polls, "diary": str(diary)}
        return started(JavaClass("tests.ScriptedTask", plugins), properties, connector_config, **start)

    return start


def polled(task: HostedSourceTask, **asked: int) -> Polled:
    found = task.poll(**asked)
    assert found is not None
    return found


def values(batch: Batch) -> list[bytes | None]:
    return list(batch.values)


def test_lines_of_a_file_are_polled_as_columns(started: Started, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\ntwø\n\nfour\n", encoding="utf-8")
    task = started(file_class("FileStreamSourceTask"), {"file": str(tmp_path / "in.txt"), "topic": "lines"})
    found = polled(task)
    assert values(found.batch) == [b"one", "twø".encode(), b"", b"four"]
    assert list(found.batch.topics) == ["lines"] * 4
    assert found.batch.keys is None
    assert found.batch.timestamps is not None
    assert set(found.batch.source_offsets) == {None}
    partition = {"filename": str(tmp_path / "in.txt")}
    assert list(found.batch.source_partitions) == [partition] * 4
    assert [each for each, _ in found.batch.ends] == [partition]
    assert found.is_whole
    assert found.mark is None


def test_task_continues_after_its_committed_offset(started: Started, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    config = {"file": str(tmp_path / "in.txt"), "topic": "lines", "batch.size": "2"}
    first = polled(started(file_class("FileStreamSourceTask"), config)).batch
    second = polled(started(file_class("FileStreamSourceTask"), config, offsets=[*first.ends])).batch
    assert values(first) + values(second) == [b"one", b"two", b"three"]


def test_verifiable_records_have_keys_and_values(started: Started) -> None:
    config = {"id": "0", "name": "made", "topic": "v", "throughput": "-1"}
    task = started(tool_class("VerifiableSourceTask"), config, {"value.converter": JSON, "key.converter": JSON})
    batches = [polled(task).batch for _ in range(3)]
    assert [json.loads(batch.values[0])["payload"] for batch in batches] == [0, 1, 2]
    assert batches[0].keys is not None
    assert json.loads(batches[0].keys[0])["payload"] == 0
    assert batches[2].ends == [({"id": 0}, {"seqno": 2})]


def test_structs_are_converted_by_javas_converter(started: Started) -> None:
    config = {
        "id": "0",
        "name": "made",
        "topic": "s",
        "throughput": "-1",
        "num.messages": "1",
        "multiple.schema": "false",
    }
    task = started(
        tool_class("SchemaSourceTask"), config, {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    )
    value = json.loads(polled(task).batch.values[0])
    assert value == {
        "boolean": True,
        "int": 12,
        "long": 12,
        "float": 12.2,
        "double": 12.2,
        "partitioning": 0,
        "id": 0,
        "seqno": 0,
    }


def test_nulls_keys_topics_and_partitions_stay_in_order(scripted: Started) -> None:
    batch = polled(scripted("a,null,b@q,c@q,d,null")).batch
    assert values(batch) == [b"a", None, b"b", b"c", b"d", None]
    assert batch.keys is not None
    assert list(batch.keys) == [b"k1", b"k2", b"k3", b"k4", b"k5", b"k6"]
    assert list(batch.topics) == ["t-p", "t-p", "t-q", "t-q", "t-p", "t-p"]
    assert [each["p"] for each in batch.source_partitions] == ["p", "p", "q", "q", "p", "p"]
    assert sorted(batch.ends, key=str) == [({"p": "p"}, {"n": 6}), ({"p": "q"}, {"n": 4})]


def test_record_can_name_its_partition(scripted: Started) -> None:
    assert polled(scripted("a,to2,to0")).batch.kafka_partitions == [None, 2, 0]


@pytest.mark.parametrize(("item", "why"), [("to-1", "Invalid partition: -1"), ("nowhere", "Topic cannot be null")])
def test_a_record_that_kafka_would_refuse_fails_the_task(scripted: Started, item: str, why: str) -> None:
    """Whatever is tolerated: as in Kafka Connect, the producer is no converter."""
    with pytest.raises(JavaError, match=why):
        scripted(f"a,{item}", {"errors.tolerance": "all"}).poll()


def test_offset_that_is_not_json_fails_only_its_task(scripted: Started) -> None:
    task, neighbour = scripted("circle;a"), scripted("b")
    with pytest.raises(JavaError, match="Offsets may only contain primitive types"):
        task.poll()
    assert values(polled(neighbour).batch) == [b"b"]


def test_lone_surrogate_in_an_offset_arrives_unchanged(scripted: Started) -> None:
    assert polled(scripted("half")).batch.ends == [({"p": "p"}, {"n": 1, "half": "\ud800"})]


def test_batch_of_only_nulls_is_a_column(scripted: Started) -> None:
    assert values(polled(scripted("null,null")).batch) == [None, None]


def test_headers_arrive_with_their_own_records(scripted: Started) -> None:
    batch = polled(scripted("a,h1,b,h2")).batch
    assert batch.headers is not None
    assert [[(header.key, header.value) for header in headers] for headers in batch.headers] == [
        [],
        [("one", b"1"), ("two", b"h1")],
        [],
        [("one", b"1"), ("two", b"h2")],
    ]


def sent_headers(task: HostedSourceTask) -> Sequence[Any]:
    """Return the headers of the next poll as bytes, in the form that they have."""
    headers = polled(task).batch.headers
    assert isinstance(headers, HeaderColumn)
    return headers.raw


def test_headers_shared_by_records_are_sent_once(scripted: Started) -> None:
    one, other = (("one", b"1"), ("two", b"h1")), (("one", b"1"), ("two", b"h2"))
    task = scripted(";".join(["h1," * 9, "h1," * 9 + "a," * 9 + "h1," * 9 + "h2," * 9, ",".join(["h1", "h2"] * 9)]))
    same = sent_headers(task)
    assert isinstance(same, Repeated)
    assert (same.value, len(same)) == (one, 9)
    runs = sent_headers(task)
    assert isinstance(runs, Runs)
    assert (runs.values, runs.counts) == ([one, (), one, other], [9, 9, 9, 9])
    assert runs.values[0] is runs.values[2]
    assert sent_headers(task) == [one, other] * 9  # shorter runs cost more than a list


def test_slightly_different_headers_are_not_merged(scripted: Started) -> None:
    kinds = {
        "h1": (("one", b"1"), ("two", b"h1")),
        "h-order": (("two", b"h1"), ("one", b"1")),
        "h-twice": (("one", b"1"), ("one", b"2")),
        "h-null": (("one", None), ("two", None)),
        "h-half": (("?one", b"1"),),  # as Kafka's producer writes half of a surrogate pair
        "a": (),
    }
    items = [item for item in [*kinds, *reversed(kinds)] for _ in range(4)]
    task = scripted(",".join(items) + ";h-null,h-null;" + ",".join(f"h{number}" for number in range(40)))
    assert list(sent_headers(task)) == [kinds[item] for item in items]
    assert list(sent_headers(task)) == [kinds["h-null"]] * 2
    assert list(sent_headers(task)) == [(("one", b"1"), ("two", b"h%d" % number)) for number in range(40)]


def test_header_converter_can_reuse_its_array(scripted: Started) -> None:
    """Headers of one record share it then, as in Kafka Connect, but not those of several."""
    task = scripted("h1,h2,h2,h1", {"header.converter": "tests.ReusingHeaderConverter"})
    assert [headers[-1] for headers in sent_headers(task)] == [("two", digit) for digit in (b"1", b"2", b"2", b"1")]


def test_empty_poll_returns_none(scripted: Started) -> None:
    task = scripted(";a")
    assert task.poll() is None
    assert values(polled(task).batch) == [b"a"]
    assert task.poll() is None


def test_a_large_poll_is_returned_in_parts(scripted: Started) -> None:
    task = scripted(",".join("x" * 100 for _ in range(10)) + ";last")
    parts = [polled(task, max_bytes=300) for _ in range(4)]
    assert [len(part.batch) for part in parts] == [3, 3, 3, 1]
    assert [part.batch.ends for part in parts] == [[({"p": "p"}, {"n": n})] for n in (3, 6, 9, 10)]
    assert [part.is_whole for part in parts] == [False, False, False, True]
    assert [part.number for part in parts] == [0, 1, 2, 3]
    assert values(polled(task).batch) == [b"last"]


def test_committed_offsets_are_returned_to_the_task_with_their_types(scripted: Started, diary: Path) -> None:
    offsets: CommittedOffsets = [({"p": "p"}, {"n": 41}), ({"p": "q"}, {"n": 7})]
    task = scripted("a", offsets=offsets)
    assert diary.read_text().splitlines() == ["start {n=41}"]  # and its cast to Long has not failed
    assert polled(task).batch.ends == [({"p": "p"}, {"n": 42})]


def test_transforms_and_predicates_run_before_converters(scripted: Started) -> None:
    config = with_transforms(
        route={"type": f"{CONNECT}.RegexRouter", "regex": "t-(.*)", "replacement": "routed-$1"},
        wrap={"type": f"{CONNECT}.HoistField$Value", "field": "v", "predicate": "isQ"},
    )
    config |= {"predicates": "isQ", "predicates.isQ.type": f"{CONNECT}.predicates.TopicNameMatches"}
    config |= {"predicates.isQ.pattern": "routed-q", "value.converter": JSON, "value.converter.schemas.enable": "false"}
    batch = polled(scripted("a,b@q", config)).batch
    assert list(batch.topics) == ["routed-p", "routed-q"]
    assert values(batch) == [b'"a"', b'{"v":"b"}']


def test_a_predicate_can_be_negated(scripted: Started) -> None:
    config = with_transforms(drop={"type": f"{CONNECT}.Filter", "predicate": "isQ", "negate": "true"})
    config |= {"predicates": "isQ", "predicates.isQ.type": f"{CONNECT}.predicates.TopicNameMatches"}
    found = polled(scripted("a,b@q,c", config | {"predicates.isQ.pattern": "t-q"}))
    assert values(found.batch) == [b"b"]
    assert found.processing.filtered == 2


def test_offsets_of_filtered_records_are_in_the_batch(scripted: Started, plugins: Location) -> None:
    task = scripted("a,drop;drop", with_transforms(picky={"type": "tests.Picky"}))
    first, second = polled(task), polled(task)
    assert values(first.batch) == [b"a"]
    assert first.batch.ends == [({"p": "p"}, {"n": 2})]
    assert first.processing.filtered == 1
    assert len(second.batch) == 0
    assert second.batch.ends == [({"p": "p"}, {"n": 3})]


def test_class_names_are_resolved_to_the_given_classes(scripted: Started, plugins: Location) -> None:
    config = with_transforms(picky={"type": "Choosy"})
    task = scripted("a,drop", config, classes={"Choosy": JavaClass("tests.Picky", plugins)})
    assert values(polled(task).batch) == [b"a"]


def test_a_record_that_cannot_be_transformed_fails_the_task(scripted: Started) -> None:
    task = scripted("a,bad", with_transforms(picky={"type": "tests.Picky"}))
    with pytest.raises(JavaError, match=r"^org\.apache\.kafka\.connect\.errors\.DataException: bad is bad\n") as raised:
        task.poll()
    assert "Tolerance exceeded in error handler: stage 'TRANSFORMATION' failed" in raised.value.thrown.trace
    assert "tests.Picky.apply" in raised.value.thrown.trace


def test_tolerated_failure_is_reported_and_its_offset_is_passed(scripted: Started) -> None:
    config = with_transforms(picky={"type": "tests.Picky"}) | {"errors.tolerance": "all"}
    found = polled(scripted("a,bad,b,bad", config))
    assert values(found.batch) == [b"a", None, b"b", None]
    assert found.batch.ends == [({"p": "p"}, {"n": 4})]
    data_error = "org.apache.kafka.connect.errors.DataException"
    assert found.processing.failures == (
        Failure(1, "TRANSFORMATION", data_error, "bad is bad", "tests.Picky", None, {"n": 2}),
        Failure(3, "TRANSFORMATION", data_error, "bad is bad", "tests.Picky", None, {"n": 4}),
    )
    assert found.processing.filtered == 0


def test_dropped_record_has_all_parts_of_its_dead_letter(scripted: Started) -> None:
    config = with_transforms(picky={"type": "tests.Picky"}) | {"errors.tolerance": "all"}
    config |= {"errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.context.headers.enable": "true"}
    found = polled(scripted("a,bad", config))
    assert found.batch.keys is not None
    assert (values(found.batch), list(found.batch.keys)) == ([b"a", b'"bad"'], [b"k1", b'"k2"'])
    (failure,) = found.processing.failures
    assert (failure.trace or "").startswith("org.apache.kafka.connect.errors.DataException: bad is bad\n")
    assert "tests.Picky.apply" in (failure.trace or "")


@pytest.mark.parametrize(
    ("item", "letter"),
    [
        ("struct", b'{"bytes":"AQ==","list":[1,null],"price":1.50,"when":"1970-01-01T00:00:00Z"}'),
        ("bytes", b"\x01"),
        ("buffer", b"\x01"),
        ("map", b'{"1":{"a":true}}'),
        ("half-value", b'"?"'),
        ("ring", b'"<java.util.ArrayList>"'),
    ],
)
def test_values_refused_by_the_converter_are_json_in_a_dead_letter(scripted: Started, item: str, letter: bytes) -> None:
    config = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    found = polled(scripted(item, config | {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}))
    assert [each.stage for each in found.processing.failures] == ["VALUE_CONVERTER"]
    assert [each.plugin for each in found.processing.failures] == ["org.apache.kafka.connect.converters.LongConverter"]
    assert values(found.batch) == [letter]


def test_record_refused_by_a_converter_is_tolerated(scripted: Started) -> None:
    config = {"errors.tolerance": "all", "value.converter": "org.apache.kafka.connect.converters.LongConverter"}
    found = polled(scripted("a,b", config))
    assert values(found.batch) == [None, None]
    assert [failure.stage for failure in found.processing.failures] == ["VALUE_CONVERTER"] * 2
    assert found.batch.ends == [({"p": "p"}, {"n": 2})]


def test_retriable_failure_is_retried_within_its_timeout(scripted: Started) -> None:
    config = with_transforms(picky={"type": "tests.Picky", "troubles": 2})
    config |= {"errors.retry.timeout": "600000", "errors.retry.delay.max.ms": "1"}
    found = polled(scripted("later", config))
    assert values(found.batch) == [b"later"]
    assert found.processing.retries == 2


@pytest.mark.parametrize("most_ms", ["1", "-1"])
def test_retries_of_a_transform_are_limited_by_time_and_not_by_count(scripted: Started, most_ms: str) -> None:
    config = with_transforms(picky={"type": "tests.Picky", "troubles": 70})
    config |= {"errors.retry.timeout": "600000", "errors.retry.delay.max.ms": most_ms, "errors.tolerance": "all"}
    found = polled(scripted("later", config))
    assert values(found.batch) == [b"later"]
    assert (found.processing.retries, found.processing.failures) == (70, ())


def test_retry_does_not_repeat_transforms_before_the_failed_one(scripted: Started) -> None:
    config = with_transforms(once={"type": "tests.Once"}, picky={"type": "tests.Picky", "troubles": 2})
    config |= {"errors.retry.timeout": "600000", "errors.retry.delay.max.ms": "1"}
    found = polled(scripted("later,a,a", config))
    assert values(found.batch) == [b"later", b"a"]
    assert (found.processing.retries, found.processing.filtered) == (2, 1)


def test_retriable_failure_of_a_transform_is_no_retriable_error_of_poll(scripted: Started) -> None:
    task = scripted("later", with_transforms(picky={"type": "tests.Picky", "troubles": 1}))
    with pytest.raises(JavaError, match="RetriableException: not yet"):
        task.poll()


def test_retriable_exception_of_poll_is_a_retriable_error(scripted: Started) -> None:
    task = scripted("!retriable;!late;a")
    with pytest.raises(JavaRetriableError, match="the source is away"):
        task.poll()
    with pytest.raises(JavaRetriableError, match="the source is late"):
        task.poll()
    assert values(polled(task).batch) == [b"a"]


def test_root_cause_is_first_in_an_error(scripted: Started) -> None:
    with pytest.raises(JavaError) as raised:
        scripted("!fail").poll()
    assert str(raised.value).startswith("java.io.IOException: no route to the source\n")
    assert raised.value.thrown.class_name == "org.apache.kafka.connect.errors.ConnectException"
    assert raised.value.thrown.message == "cannot poll"


def marks(task: HostedSourceTask) -> list[tuple[list[bytes | None], Mark | None]]:
    found = []
    while (part := task.poll()) is not None:
        found.append((values(part.batch), part.mark))
    return found


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        ("a,b+commit,c", [([b"a", b"b"], Mark.COMMIT), ([b"c"], None)]),
        ("a,b+abort,c+commit", [([b"a", b"b"], Mark.ABORT), ([b"c"], Mark.COMMIT)]),
        ("a,!commit;b,!abort", [([b"a"], Mark.COMMIT), ([b"b"], Mark.ABORT)]),
        ("a;b,!commit", [([b"a"], None), ([b"b"], Mark.COMMIT)]),
        ("!commit,a,b+commit;c", [([b"a", b"b"], Mark.COMMIT), ([], Mark.COMMIT), ([b"c"], None)]),
        ("!commit", [([], Mark.COMMIT)]),
        ("a+commit,b+commit", [([b"a"], Mark.COMMIT), ([b"b"], Mark.COMMIT)]),
    ],
)
def test_batches_end_where_the_task_ends_its_transactions(
    scripted: Started, polls: str, expected: Sequence[tuple[list[bytes], Mark | None]]
) -> None:
    assert marks(scripted(polls, defines_transactions=True)) == expected


def test_a_filtered_record_ends_its_transaction(scripted: Started) -> None:
    task = scripted("a,drop+commit,b", with_transforms(p={"type": "tests.Picky"}), defines_transactions=True)
    assert marks(task) == [([b"a"], Mark.COMMIT), ([b"b"], None)]


def test_both_a_commit_and_an_abort_of_a_batch_fail_the_task(scripted: Started) -> None:
    task = scripted("a,!commit,!abort", defines_transactions=True)
    with pytest.raises(JavaError, match="both commit and abort"):
        task.poll()


def test_task_receives_commit_record_and_commit_calls(scripted: Started, diary: Path) -> None:
    task = scripted("a,drop,b", with_transforms(p={"type": "tests.Picky"}))
    found = polled(task)
    task.commit_records(found.number, [RecordMetadata("t-p", 1, 70, 5), RecordMetadata("t-p", 0, 9, None)])
    task.commit(found.batch.ends)
    told = ["record a t-p-1@70", "record drop null", "record b t-p-0@9", "commit"]
    assert diary.read_text().splitlines() == ["start null", *told]


def test_commit_records_accepts_missing_record_metadata(scripted: Started, diary: Path) -> None:
    route = {"type": f"{CONNECT}.RegexRouter", "regex": "t-(.*)", "replacement": "routed-$1"}
    task = scripted("a,drop;b", with_transforms(p={"type": "tests.Picky"}, route=route))
    for metadata in (None, []):
        task.commit_records(polled(task).number, metadata)
    told = ["record a routed-p--1@-1", "record drop null", "record b null"]
    assert diary.read_text().splitlines() == ["start null", *told]


def test_task_reads_offsets_committed_since_its_start(scripted: Started, diary: Path) -> None:
    task = scripted("a,b;!offset;!offset;!offset", offsets=[({"p": "p"}, {"n": 5}), ({"p": "q"}, {"n": 1})])
    ends = polled(task).batch.ends
    assert task.poll() is None
    task.commit(ends)
    assert task.poll() is None
    task.commit([({"p": "p"}, None)])
    assert task.poll() is None
    told = ["offset {n=5}", "commit", "offset {n=7}", "commit", "offset null"]
    assert diary.read_text().splitlines() == ["start {n=5}", *told]


def test_tasks_leave_no_thread_in_the_host(host: JavaHost, started: Started, tmp_path: Path) -> None:
    config = {"file": str(tmp_path / "none"), "topic": "lines"}

    def run_one() -> int:
        task = started(file_class("FileStreamSourceTask"), config)
        task.stop(60)
        return sum(not line.startswith(" ") for line in host.threads().splitlines())

    run_one()
    most = run_one()
    for _ in range(50):
        last = run_one()
    eventually(lambda: run_one() <= most, within_s=60)
    assert last <= most + 25  # the last ones may be about to end


def test_metrics_of_java_plugins_reach_python(scripted: Started) -> None:
    """Those that are numbers; one that cannot be computed is left out."""
    task = scripted("a,b", with_transforms(picky={"type": "tests.Picky"}))
    assert len(polled(task).batch) == 2
    expected = ["seen", "transformation=tests.Picky", 2.0]
    eventually(lambda: list(task.figures()) == [expected], within_s=60)


def test_task_can_change_offsets_to_be_committed(scripted: Started, diary: Path) -> None:
    task = scripted("a")
    offsets = polled(task).batch.ends
    assert sorted(task.update_offsets(offsets), key=str) == [({"p": "gone"}, None), ({"p": "idle"}, {"n": 1})]
    assert "update {{p=p}={n=1}}" in diary.read_text()


def test_description_of_a_class_has_the_callbacks_that_it_overrides(host: JavaHost, plugins: Location) -> None:
    assert host.ask.describe(JavaClass("tests.ScriptedTask", plugins)).callbacks == (True, True, True, True)
    assert host.ask.describe(file_class("FileStreamSourceTask")).callbacks == (False, False, False, False)
    assert host.ask.describe(file_class("FileStreamSourceConnector")).callbacks is None


def test_description_of_a_class_shows_whether_it_uses_record_metadata(host: JavaHost, plugins: Location) -> None:
    callbacks = host.ask.describe(JavaClass("tests.BlindTask", plugins)).callbacks
    assert callbacks is not None
    assert (callbacks.records, callbacks.places) == (True, False)


def test_callbacks_that_a_class_does_not_override_are_not_called(started: Started, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    task = started(file_class("FileStreamSourceTask"), {"file": str(tmp_path / "in.txt"), "topic": "lines"})
    found = polled(task)
    task.commit_records(found.number, None)
    task.commit(found.batch.ends)
    assert task.update_offsets(found.batch.ends) == []


def test_null_offset_removes_the_committed_one(scripted: Started) -> None:
    assert polled(scripted("a,no-offset")).batch.ends == [({"p": "p"}, None)]
    assert polled(scripted("no-offset,a")).batch.ends == [({"p": "p"}, {"n": 2})]


def test_lone_surrogate_in_a_committed_offset_reaches_the_task(scripted: Started, diary: Path) -> None:
    offset = {"n": 7, "half": "\ud800"}
    scripted("", offsets=[({"p": "p"}, offset)])
    (line,) = diary.read_text().splitlines()
    assert line in ("start {half=?, n=7}", "start {n=7, half=?}")


@pytest.mark.parametrize(
    "which", ["key.converter", "value.converter", "header.converter", "transforms.t", "predicates.p"]
)
def test_plugins_of_a_task_that_cannot_start_are_closed(scripted: Started, diary: Path, which: str) -> None:
    """Also the one that could not be configured."""
    config = with_transforms(t={"type": "tests.Closing", "predicate": "p"})
    config |= {"predicates": "p", "predicates.p.type": "tests.Closing"}
    names = ["key.converter", "value.converter", "header.converter", "transforms.t", "predicates.p"]
    config |= dict.fromkeys(names[:3], "tests.Closing")
    config |= {f"{name}.diary": str(diary) for name in names} | {f"{name}.alias": name for name in names}
    with pytest.raises(JavaError, match="cannot be configured"):
        scripted("a", config | {f"{which}.fails": "yes"})
    made = names[: names.index(which) + 1]
    assert sorted(diary.read_text().splitlines()) == sorted(f"closed {name}" for name in made)


def test_a_stop_reaches_the_task_once(scripted: Started, diary: Path) -> None:
    task = scripted("a")
    task.stop(60)
    task.stop(60)
    assert diary.read_text().splitlines() == ["start null", "stop"]
