"""A sink task in a real host: what it is given, and what it asks for."""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api import BinaryColumn, Header, HeaderColumn, Repeated, RetriableError, Schema, SinkBatch, SinkRecord
from fencepost.builtin.java.client import session
from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.client.session import HostedSinkTask
from fencepost.builtin.java.error import JavaError
from fencepost.builtin.java.port import (
    Effects,
    Errant,
    GroupMember,
    HostOptions,
    JavaClass,
    Location,
    PutEffects,
    SinkTaskStart,
)
from fencepost.builtin.java.start import start_host
from fencepost.record import AppendTime, TopicPartition
from fencepost.record.schema import INT32, STRING
from fencepost.testing import eventually
from support.java_plugins import CONVERTERS, file_class, tool_class, with_transforms

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Offsets:
    """What a sink task's consumer knows."""

    def committed(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    def positions(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(places, 40)

    def edges(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        return {place: (7 + place.partition, 50) for place in places}


def _refused(errant: Sequence[Errant]) -> int:
    raise RetriableError(f"no leader for {len(errant)} dead letters")


class Letters:
    """Writes what is reported in the middle of a call at once, unless it is to wait for something."""

    def __init__(self, wait: Callable[[], object] = lambda: None) -> None:
        self.taken: list[SinkRecord] = []
        self._wait = wait

    def report(self, errant: Sequence[Errant]) -> int:
        self.take(errant)
        self._wait()
        return len(self.taken)

    def take(self, errant: Sequence[Errant]) -> None:
        self.taken += [each.record for each in errant]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the host put all rows of a request, however slow the machine is just now."""
    monkeypatch.setattr(session, "_WITHIN_MS", 600_000)


@pytest.fixture
def started(host: JavaHost) -> Iterator[Callable[..., HostedSinkTask]]:
    tasks: list[HostedSinkTask] = []

    def start(
        java_class: JavaClass,
        task_config: Mapping[str, str],
        connector_config: Mapping[str, str] | None = None,
        **start: Any,
    ) -> HostedSinkTask:
        config = CONVERTERS | dict(connector_config or {})
        asked = SinkTaskStart(
            connector="made",
            task=0,
            java_class=java_class,
            task_config=task_config,
            connector_config=config,
            **{"offsets": Offsets(), "report": _refused, **start},
        )
        tasks.append(host.sink_task(asked))
        return tasks[-1]

    yield start
    for task in tasks:
        task.stop(60)


@pytest.fixture
def scripted(started: Callable[..., HostedSinkTask], plugins: Location, diary: Path) -> Callable[..., HostedSinkTask]:
    def start(connector_config: Mapping[str, str] | None = None, **start: Any) -> HostedSinkTask:
        task = started(JavaClass("tests.ScriptedSink", plugins), {"diary": str(diary)}, connector_config, **start)
        task.open([P0, P1])
        diary.unlink()
        return task

    return start


def batch(*values: str | bytes | None, place: TopicPartition = P0, first: int = 0, **columns: Any) -> SinkBatch:
    raw = [value.encode() if isinstance(value, str) else value for value in values]
    count = len(raw)
    none = Repeated(None, count)
    found: dict[str, Any] = {
        "topics": Repeated(place.topic, count),
        "partitions": Repeated(place.partition, count),
        "offsets": range(first, first + count),
        "values": BinaryColumn(pa.array(raw, pa.binary())),
        "value_schemas": none,
        "keys": none,
        "key_schemas": none,
        "timestamps": Repeated(7, count),
        "places": Repeated(place, count),
    }
    return SinkBatch(**found | columns)


def test_host_puts_records_while_python_does_other_work(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    seen: list[str] = []
    task = scripted()
    task.put(batch("one"), meanwhile=lambda: seen.append(eventually(lambda: diary.exists() and diary.read_text())))
    assert len(seen) == 1
    assert "one" in seen[0]


def test_javas_file_sink_writes_lines_to_a_file(started: Callable[..., HostedSinkTask], tmp_path: Path) -> None:
    task = started(file_class("FileStreamSinkTask"), {"file": str(tmp_path / "out.txt")})
    assert task.open([P0]) == Effects()
    assert task.put(batch("one", "twø")) == PutEffects()
    assert task.put(batch(None, "four", first=2)) == PutEffects()
    assert task.put(batch()) == PutEffects()
    assert task.pre_commit({P0: 4}) == ({P0: 4}, Effects())
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "one\ntwø\nnull\nfour\n"
    assert task.close([P0]) == Effects()


def test_records_kept_by_a_task_are_not_overwritten_by_later_requests(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    """What comes later, a question's answer among it, is read over the bytes of the request, not over theirs."""
    task = scripted()
    task.put(batch("one", "!retriable", keys=[b"k", b"k"]))
    task.pre_commit({P0: 1})
    task.put(batch(), is_again=True)
    task.put(batch("two", "!committed", "six", first=2))
    task.put(batch("!all", first=5))
    assert diary.read_text().splitlines()[-1] == "all [one, !retriable, one, !retriable, two, !committed, six, !all]"


def test_requests_of_all_sizes_arrive_unchanged(started: Callable[..., HostedSinkTask], tmp_path: Path) -> None:
    task = started(file_class("FileStreamSinkTask"), {"file": str(tmp_path / "out.txt")})
    task.open([P0])
    sizes = [10, 70_000, 5 << 20, 10, (4 << 20) - 64, 1 << 20, 10]
    values = [b"%0*d" % (size, number) for number, size in enumerate(sizes)]
    for number, value in enumerate(values):
        task.put(batch(value, first=number))
    assert (tmp_path / "out.txt").read_bytes().splitlines() == values


def test_requests_arrive_when_direct_memory_is_exhausted(tmp_path: Path) -> None:
    """Each task has a buffer there. What it is not given, it takes of the heap."""
    lines = [b"%0100d" % number for number in range(12_000)]
    tasks = []  # or they would end
    with start_host(HostOptions(["-XX:MaxDirectMemorySize=4m"], "host of tests")) as host:
        for number in range(6):
            file = tmp_path / f"out-{number}.txt"
            task = host.sink_task(
                SinkTaskStart(
                    connector=f"made-{number}",
                    task=0,
                    java_class=file_class("FileStreamSinkTask"),
                    task_config={"file": str(file)},
                    connector_config=CONVERTERS,
                    offsets=Offsets(),
                    report=_refused,
                )
            )
            tasks.append(task)
            task.open([P0])
            task.put(batch(*lines))
            assert file.read_bytes().splitlines() == lines


def test_javas_verifiable_sink_receives_records(
    started: Callable[..., HostedSinkTask], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    task = started(
        tool_class("VerifiableSinkTask"),
        {"name": "made", "id": "0"},
        {"value.converter": JSON, "value.converter.schemas.enable": "false", "key.converter": JSON}
        | {"key.converter.schemas.enable": "false"},
    )
    task.open([P0])
    task.put(batch("5", "6", keys=[b"1", b"1"]))
    lines = eventually(
        lambda: [r.getMessage() for r in caplog.records if '"sinkTask"' in r.getMessage()][1:], within_s=60
    )
    assert json.loads(lines[0].split("printed: ")[1])["seqno"] == 6


def test_put_record_has_key_value_headers_and_position(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    headers = [[("one", b"1"), ("two", None)], [], [("one", b"2")]]
    task = scripted()
    parts = batch(
        "a",
        None,
        "c",
        keys=[b"k", None, b"l"],
        timestamps=[5, None, 6],
        headers=HeaderColumn(headers),
        places=[P0, P1, P1],
        topics=Repeated("t", 3),
        partitions=[0, 1, 1],
        offsets=[10, 3, 4],
    )
    task.put(parts)
    lines = diary.read_text().splitlines()
    assert [line.split(" ConnectHeaders")[0] for line in lines] == [
        "t-0@10 k=a 5",
        "t-1@3 null=null null",
        "t-1@4 l=c 6",
    ]
    assert [line.count("ConnectHeader(") for line in lines] == [2, 0, 1]
    assert "key=one, value=1" in lines[0]


def test_slice_of_columns_is_put_unchanged(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    array = pa.array([b"x", None, b"a", b"", None, b"b", b"y"], pa.binary())
    task = scripted()
    task.put(batch(b"", b"", b"", b"", values=BinaryColumn(array[2:6]), keys=BinaryColumn(array[1:5])))
    assert [line.split()[1] for line in diary.read_text().splitlines()] == ["null=a", "a=", "=null", "null=b"]


def test_transforms_run_after_converters(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    task = scripted(with_transforms(picky={"type": "tests.Picky"}) | {"errors.tolerance": "all"})
    effects = task.put(batch("a", "drop", "bad", "b"))
    assert [line.split()[1] for line in diary.read_text().splitlines()] == ["null=a", "null=b"]
    assert effects.processing.filtered == 1
    assert [(each.row, each.message) for each in effects.processing.failures] == [(2, "bad is bad")]


def test_unconvertible_value_fails_the_task_and_is_named_in_the_error(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    headers = {"errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.context.headers.enable": "true"}
    effects = scripted({"value.converter": JSON, "value.converter.schemas.enable": "false"} | headers).put(
        batch("1", "{no json", "{no json")
    )
    assert "JsonParseException" in str(effects.thrown)
    (failure,) = effects.processing.failures
    assert (failure.row, failure.stage, failure.plugin) == (1, "VALUE_CONVERTER", JSON)
    assert failure.trace is not None
    assert failure.trace.startswith("org.apache.kafka.connect.errors.DataException")
    assert "Caused by: " in failure.trace
    assert not diary.exists()  # nothing was put


def test_records_have_the_type_of_their_timestamp(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    scripted().put(batch("!times", "b", "c", timestamps=[AppendTime(5), 6, None]))
    assert "times [LogAppendTime, CreateTime, NoTimestampType]" in diary.read_text()


def test_resent_record_has_its_original_topic_and_the_offset_of_its_read(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    task = scripted(has_reporter=True)
    effects = task.put(batch("a", "!report", topics=["t", "first"]))
    assert [line.split()[0] for line in diary.read_text().splitlines()] == ["t-0@0", "first-0@1"]
    assert [(each.record.at, each.record.kafka_offset) for each in effects.errant] == [(P0, 1)]
    assert effects.errant[0].record.topic == "t"  # as it was read: its headers name the first topic


def test_refused_batch_is_put_again(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    task = scripted()
    refused = batch("a", "!retriable", "b")
    effects = task.put(refused)
    assert effects.timeout_ms == 100
    assert "the store is away" in str(effects.thrown)
    assert task.put(refused, is_again=True) == PutEffects()
    put = [line.split()[1] for line in diary.read_text().splitlines()]
    assert put == ["null=a", "null=!retriable", "null=a", "null=!retriable", "null=b"]


def test_batch_is_put_again_unchanged_when_the_task_has_emptied_its_list(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    task = scripted(with_transforms(picky={"type": "tests.Picky"}))
    refused = batch("a", "drop", "!take-and-refuse", "b")
    assert [(put.rows, put.removed) for put in task.put(refused).puts] == [(4, 1)]
    again = task.put(refused, is_again=True)
    assert [(put.rows, put.removed) for put in again.puts] == [(4, 1)]
    assert again.thrown is None
    assert put_with(diary) == ["a", "!take-and-refuse", "a", "!take-and-refuse", "b"]


def test_retriable_exception_of_kafkas_clients_in_put_fails_the_task(
    scripted: Callable[..., HostedSinkTask],
) -> None:
    """The task may be in the middle of its put: only Connect's own exception says that it may have them again."""
    thrown = scripted().put(batch("a", "!late")).thrown
    assert isinstance(thrown, JavaError)
    assert thrown.thrown.class_name == "org.apache.kafka.common.errors.TimeoutException"


def test_retriable_exception_in_start_fails_the_task(
    started: Callable[..., HostedSinkTask], plugins: Location, diary: Path
) -> None:
    with pytest.raises(JavaError, match="the store is not there yet"):
        started(JavaClass("tests.ScriptedSink", plugins), {"diary": str(diary), "is.away": "true"})


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_retries_of_a_transform_are_limited_by_time_and_not_by_count(
    scripted: Callable[..., HostedSinkTask], diary: Path, tolerance: str
) -> None:
    config = with_transforms(picky={"type": "tests.Picky", "troubles": 70})
    config |= {"errors.retry.timeout": "600000", "errors.retry.delay.max.ms": "1", "errors.tolerance": tolerance}
    effects = scripted(config).put(batch("a", "later"))
    assert effects.thrown is None
    assert (effects.processing.retries, effects.processing.failures) == (70, ())
    assert put_with(diary) == ["a", "later"]


def put_with(diary: Path) -> list[str]:
    """Return the values of all records that were put, since the last time."""
    lines = diary.read_text().splitlines()
    diary.unlink()
    return [line.split("=")[1].split()[0] for line in lines]


@pytest.mark.usefixtures("patient")
def test_many_rows_are_put_in_several_calls(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    headers: Any = [[("n", str(n).encode())] * n for n in range(5)]
    places = [P0, P1, P1, P1, P0]
    task = scripted()
    effects = task.put(batch(*"abcde", places=places, headers=HeaderColumn(headers)), 2)
    assert [put.rows for put in effects.puts] == [2, 2, 1]
    lines = diary.read_text().splitlines()
    assert [line.count("ConnectHeader(") for line in lines] == [0, 1, 2, 3, 4]
    assert [line.split()[0] for line in lines] == ["t-0@0", "t-1@1", "t-1@2", "t-1@3", "t-0@4"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("act", ["rewind", "timeout", "pause", "commit", "report", "seek", "fail", "retriable"])
def test_no_put_follows_a_call_with_a_context_request_or_an_exception(
    act: str, scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    effects = scripted(has_reporter=True).put(batch("a", "b", f"!{act}", "c", "d"), 2)
    assert [put.rows for put in effects.puts] == [2, 2]
    assert (effects.thrown is not None) is (act in ("fail", "retriable"))
    assert put_with(diary)[:3] == ["a", "b", f"!{act}"]


@pytest.mark.usefixtures("patient")
def test_rows_after_one_that_cannot_be_converted_wait_for_it(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    """They are not even transformed: a transform that drops duplicates would drop them when they come again."""
    task = scripted(with_transforms(picky={"type": "tests.Picky"}) | {"errors.tolerance": "all"})
    effects = task.put(batch("drop", "a", "bad", "b", "c"), 2)
    assert [(put.rows, put.removed) for put in effects.puts] == [(2, 1), (2, 1)]
    assert [each.row for each in effects.processing.failures] == [2]
    assert put_with(diary) == ["a", "b"]


@pytest.mark.usefixtures("patient")
def test_only_refused_rows_are_put_again(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    task = scripted(with_transforms(picky={"type": "tests.Picky"}))
    refused = batch("a", "b", "drop", "!retriable", "c")
    assert [(put.rows, put.removed) for put in task.put(refused, 2).puts] == [(2, 0), (2, 1)]
    again = task.put(refused.part(2, 4), 2, is_again=True)
    assert [(put.rows, put.removed) for put in again.puts] == [(2, 1)]
    assert again.thrown is None
    assert put_with(diary) == ["a", "b", "!retriable", "!retriable"]


def test_no_put_follows_a_slow_call(scripted: Callable[..., HostedSinkTask]) -> None:
    effects = scripted().put(batch("a", "!slow", "b"), 1)
    assert [put.rows for put in effects.puts][-1:] == [1]
    assert len(effects.puts) <= 2
    assert effects.puts[-1].took_s >= 0.15 or len(effects.puts) == 1


def test_requests_of_a_task_to_its_context_are_returned_once(scripted: Callable[..., HostedSinkTask]) -> None:
    task = scripted()
    assert task.put(batch("!rewind")).rewinds == {P0: 5}
    assert task.put(batch("!rewind to nothing")).rewinds == {P1: 5}
    assert task.put(batch("!timeout")).timeout_ms == 250
    assert task.put(batch("!pause", place=P1)).paused == (P1,)
    assert task.put(batch("!resume", place=P1)).resumed == (P1,)
    assert task.put(batch("!commit")).requests_commit
    assert task.put(batch()) == PutEffects()


def test_a_partition_that_is_not_owned_cannot_be_paused(scripted: Callable[..., HostedSinkTask]) -> None:
    task = scripted()
    task.close([P1])
    assert "not currently assigned" in str(task.put(batch("!pause", place=P1)).thrown)


JSON_VALUES = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
LOUD = {"header": "loud", "value.literal": "much"}


@pytest.mark.parametrize(
    "transform",
    [{}, {"type": "org.apache.kafka.connect.transforms.InsertHeader", **LOUD}],
    ids=["plain", "transformed"],
)
def test_reported_records_have_the_bytes_that_were_read(
    scripted: Callable[..., HostedSinkTask], transform: Mapping[str, str]
) -> None:
    config = JSON_VALUES | (with_transforms(loud=transform) if transform else {})
    given = batch(
        "1", ' "!report" ', '"!report"', first=4, keys=[b"k", None, b"l"], headers=HeaderColumn([[], [("h", b"1")], []])
    )
    first, second = scripted(config, has_reporter=True).put(given).errant
    assert (first.class_name, first.message) == ("org.apache.kafka.connect.errors.DataException", "unreadable")
    record = first.record
    assert (record.at, record.kafka_offset, record.key, record.value) == (P0, 5, None, b' "!report" ')
    assert [(header.key, header.value) for header in record.headers] == [("h", b"1")]
    assert (record.topic, record.timestamp) == ("t", 7)
    assert (second.record.kafka_offset, second.record.key, second.record.headers) == (6, b"l", ())


def test_record_reported_long_after_its_commit_has_its_bytes(
    scripted: Callable[..., HostedSinkTask],
) -> None:
    task = scripted(JSON_VALUES, has_reporter=True)
    task.put(batch(' "first" ', keys=[b"k"]))
    for offset in range(1, 5):
        task.pre_commit({P0: offset})
        assert task.put(batch("1", first=offset)).errant == ()
    (errant,) = task.put(batch('"!report the first"', first=5)).errant
    assert (errant.record.kafka_offset, errant.record.key, errant.record.value) == (0, b"k", b' "first" ')


def test_record_reported_in_stop_is_logged(
    scripted: Callable[..., HostedSinkTask], caplog: pytest.LogCaptureFixture
) -> None:
    task = scripted(has_reporter=True)
    task.put(batch("a", "!report the first in stop", first=77))
    task.stop(60)
    (line,) = eventually(lambda: [r for r in caplog.records if "no dead letter" in r.getMessage()], within_s=60)
    assert "the task has reported t-0@77 in stop() or later" in line.getMessage()
    assert line.levelno == logging.WARNING


def test_reported_record_made_by_the_task_is_written_by_the_converters(
    scripted: Callable[..., HostedSinkTask],
) -> None:
    (errant,) = scripted(JSON_VALUES, has_reporter=True).put(batch(' "!report a new one"', first=4)).errant
    assert (errant.record.at, errant.record.kafka_offset, errant.record.value) == (P0, 4, b'"made"')
    assert errant.record.as_read is None


def test_reported_record_converted_in_python_has_its_put_value(
    scripted: Callable[..., HostedSinkTask],
) -> None:
    task = scripted(has_reporter=True, passes_records=True)
    schema = Schema.struct({"n": INT32})
    made = SinkRecord("t", 0, 4, {"n": 1}, schema, "k", STRING, 7, (Header("h", 5, INT32),), at=P0)
    last = SinkRecord("t", 0, 5, "!report the first", STRING, at=P0)
    (errant,) = task.put(SinkBatch.of_records([made, last])).errant
    assert errant.record == made


def raw(offset: int, value: bytes, *headers: tuple[str, bytes]) -> SinkRecord:
    own = tuple(Header(*each) for each in headers)
    return SinkRecord("t", 0, offset, value, key=b"k", timestamp=9, headers=own, at=P0)


@pytest.mark.parametrize("transform", [{}, {"type": "tests.Anew"}], ids=["plain", "made anew"])
def test_late_report_of_a_record_converted_in_python_has_the_bytes_read(
    scripted: Callable[..., HostedSinkTask], transform: Mapping[str, str]
) -> None:
    config = with_transforms(anew=transform) if transform else {}
    task = scripted(config, has_reporter=True, passes_records=True)
    read = [raw(3, b"?"), raw(4, b'{"n": 1.0}', ("h", b"05"))]
    texts = [SinkRecord("t", 0, each.kafka_offset, "1", STRING, "k", at=P0, as_read=each) for each in read]
    task.put(SinkBatch.of_records(texts))
    task.put(SinkBatch.of_records([SinkRecord("t", 0, 5, "1", STRING, at=P0, as_read=raw(5, b"1"))]))
    (errant,) = task.put(SinkBatch.of_records([SinkRecord("t", 0, 6, "!report the first", STRING, at=P0)])).errant
    found = errant.record.as_read
    assert found is not None
    assert (found.topic, found.kafka_partition, found.at, found.kafka_offset) == ("t", 0, P0, 3)
    assert (found.key, found.value, found.timestamp) == (b"k", b"?", 9)


def test_late_report_of_a_resent_record_has_the_headers_about_its_origin(
    scripted: Callable[..., HostedSinkTask],
) -> None:
    """Java never sees them. A record before it that is dropped has some, too."""
    task = scripted(JSON_VALUES | {"errors.tolerance": "all"}, has_reporter=True)
    own, about = ("h", b"05"), ("__fencepost.resent.partition", b"3")
    bad, good = raw(3, b"no JSON", about), raw(4, b' "first"', own, about)
    resent = [good.replace(headers=each.headers[:-1], topic="orders") for each in (bad, good)]
    columns = [replace(each, value=r.value, as_read=r) for each, r in zip(resent, (bad, good), strict=True)]
    effects = task.put(SinkBatch.of_records(columns))
    assert [each.row for each in effects.processing.failures] == [0]
    task.put(batch("1", first=5))
    (errant,) = task.put(batch('"!report the first"', first=6)).errant
    found = errant.record.as_read
    assert found is not None
    assert (found.topic, found.at, found.value, found.timestamp) == ("t", P0, b' "first"', 9)
    assert [(header.key, header.value) for header in found.headers] == [own, about]


@pytest.mark.parametrize("act", ["report and wait", "report, and wait for those who wait"])
def test_task_that_waits_for_a_report_continues_once_its_letter_is_written(
    scripted: Callable[..., HostedSinkTask], diary: Path, act: str
) -> None:
    seen: list[str] = []
    letters = Letters(lambda: seen.append(diary.read_text()))
    task = scripted(has_reporter=True, report=letters.report)
    effects = task.put(batch("a", f"!{act}", f"!{act}"))
    assert (effects.thrown, effects.errant) == (None, ())
    assert [record.kafka_offset for record in letters.taken] == [1, 2]
    assert [text.count("reported") for text in seen] == [0, 1]
    assert diary.read_text().count("reported") == 2


def test_failed_report_of_a_record_is_raised_in_the_task(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    effects = scripted(has_reporter=True).put(batch("!report and wait"))
    assert "report failed: no leader for 1 dead letters" in str(effects.thrown)
    assert "reported" not in diary.read_text()


def test_task_can_check_later_whether_its_report_is_written(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    asked: list[int] = []
    letters = Letters(lambda: asked.append(len(letters.taken)))
    task = scripted(has_reporter=True, report=letters.report)
    letters.take(task.put(batch("!report and look later")).errant)

    def is_written() -> bool:
        task.put(batch("!is it written", first=1))
        return "written true" in diary.read_text()

    eventually(is_written, within_s=120)
    assert asked == [1]
    assert [record.kafka_offset for record in letters.taken] == [0]


def test_report_has_the_bytes_read_when_a_transform_has_replaced_the_record(
    scripted: Callable[..., HostedSinkTask],
) -> None:
    config = JSON_VALUES | with_transforms(anew={"type": "tests.Anew"})
    (errant,) = scripted(config, has_reporter=True).put(batch(' "!report"', first=4)).errant
    assert (errant.record.at, errant.record.topic, errant.record.kafka_offset) == (P0, "t", 4)
    assert errant.record.value == b' "!report"'


def test_reporter_is_null_when_the_config_has_no_dead_letters(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    scripted().put(batch("!reporter"))
    assert "reporter null" in diary.read_text()


def test_group_metadata_is_in_the_consumer_field_that_iceberg_reads(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    task = scripted()
    task.open([], GroupMember("connect-made", 3, "member-1"))
    task.put(batch("!group"))
    assert "groupId = connect-made, generationId = 3, memberId = member-1" in diary.read_text()
    refusal = "the consumer of this task is not in this process, so poll cannot be called"
    assert refusal in str(task.put(batch("!consumer")).thrown)


def test_consumer_returns_committed_offsets(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    asked: list[frozenset[TopicPartition]] = []

    class Committed(Offsets):
        def committed(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
            asked.append(frozenset(places))
            return {P0: 17}

    task = scripted(offsets=Committed())
    assert task.put(batch("!committed")) == PutEffects()
    assert "t-0=OffsetAndMetadata{offset=17" in diary.read_text()
    assert "t-1=null" in diary.read_text()
    assert asked == [{P0, P1}]
    refusal = "committed can only be called in the thread in which the task is called"
    assert refusal in str(task.put(batch("!elsewhere")).thrown)


def test_unreadable_offsets_are_a_kafka_exception_of_the_consumer(scripted: Callable[..., HostedSinkTask]) -> None:
    class Away(Offsets):
        def committed(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
            raise RetriableError("no broker")

    effects = scripted(offsets=Away()).put(batch("!committed"))
    assert "KafkaException: committed failed: no broker" in str(effects.thrown)


@pytest.mark.usefixtures("patient")
def test_position_of_the_consumer_is_after_the_last_record_put(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    task = scripted()
    task.put(batch("!position", "a", "b", "!position", first=5), 2)
    task.put(batch("!position", place=P1, first=9))
    task.put(batch(), 1)
    assert [line for line in diary.read_text().splitlines() if line.startswith("position")] == [
        "position 7",
        "position 9",
        "position 10",
    ]


def test_position_of_the_consumer_is_the_groups_before_the_first_record(
    scripted: Callable[..., HostedSinkTask], diary: Path
) -> None:
    scripted().put(batch("!position of t-1"))
    assert "position of t-1: 40" in diary.read_text()


def test_consumer_returns_beginning_and_end_offsets(scripted: Callable[..., HostedSinkTask], diary: Path) -> None:
    scripted().put(batch("!edges", place=P1))
    assert "edges {t-1=8}{t-1=50}" in diary.read_text()


def test_a_seek_of_the_consumer_is_a_rewind(scripted: Callable[..., HostedSinkTask]) -> None:
    task = scripted()
    assert task.put(batch("!seek", first=9)).rewinds == {P0: 3}
    task.close([P0])
    assert "No current assignment for partition t-0" in str(task.put(batch("!seek")).thrown)


def test_pre_commit_can_return_lower_offsets(scripted: Callable[..., HostedSinkTask]) -> None:
    assert scripted().pre_commit({P0: 4, P1: 9}) == ({P0: 3, P1: 8}, Effects())


def test_partitions_are_opened_and_closed(
    started: Callable[..., HostedSinkTask], plugins: Location, diary: Path
) -> None:
    task = started(JavaClass("tests.ScriptedSink", plugins), {"diary": str(diary)})
    task.open([P0])
    task.open([P1])
    task.close([P0, P1])
    assert diary.read_text().splitlines() == ["open [t-0] of 1", "open [t-1] of 2", "close [t-0, t-1]"]


def test_exception_of_put_is_returned_with_its_cause_first(scripted: Callable[..., HostedSinkTask]) -> None:
    thrown = scripted().put(batch("!fail")).thrown
    assert isinstance(thrown, JavaError)
    assert str(thrown).startswith("java.io.IOException: no space left\n")


def test_log_lines_of_java_have_their_task(
    scripted: Callable[..., HostedSinkTask], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    task = scripted()
    task.put(batch("!debug", "!log"))
    (line,) = eventually(lambda: [r for r in caplog.records if r.name == "tests.ScriptedSink"], within_s=60)
    assert line.levelno == logging.WARNING
    error = "org.apache.kafka.connect.errors.ConnectException: almost"
    assert line.getMessage().startswith(f"made-0: wrote !log of 2\n{error}")


def test_levels_of_loggers_can_be_set(
    host: JavaHost, scripted: Callable[..., HostedSinkTask], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    task = scripted()
    host.set_levels({"tests": "DEBUG"})
    task.put(batch("!debug"))
    host.set_levels({"tests": "ERROR"})
    task.put(batch("!log"))
    host.set_levels({})
    task.put(batch("!log"))

    def lines() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "tests.ScriptedSink"]

    eventually(lambda: any("wrote" in line for line in lines()), within_s=60)
    assert lines()[0] == "made-0: a detail"
    assert len(lines()) == 2
