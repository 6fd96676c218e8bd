"""Files in a directory, through real Spark, the data source and a real broker."""

import gzip
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from secret_values import CHANNEL_SECRET
from split_worker import NO_SCHEMA, SplitWorker, serving

from fencepost.api import ConfigError, RecordError, Split
from fencepost.builtin.connector.spool import csv_layout
from fencepost.builtin.connector.spool import source as spool
from fencepost.builtin.connector.spool.csv_layout import HEAD_BYTES
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.read.log import LogReader
from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.split.lines import LineChoice
from fencepost.spark.split.run import ReadingChangedError
from fencepost.spark.split.splits import SplitError, SplitReader, is_unreadable
from fencepost.testing import eventually
from fencepost.worker.channel import RefusedError
from support.proxy import Action, ApiKey, KafkaProxy


@pytest.fixture
def worker(runtime: SparkRuntime, kafka: EmbeddedKafka, topic_name: str) -> Iterator[SplitWorker]:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=1, replication=1)
    admin.topics.create(f"{topic_name}-offsets", partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    with serving(SplitWorker(runtime, kafka.bootstrap_servers, topic_name), CHANNEL_SECRET) as started:
        yield started


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "inbox"
    directory.mkdir()
    return directory


def source(inbox: Path, **settings: str) -> SpoolDirectorySource:
    named = {k.replace("_", "."): v for k, v in settings.items()}
    return SpoolDirectorySource({"input.path": str(inbox), "topic": "t", "reader.header": "true", **named})


def records(worker: SplitWorker) -> list[tuple[bytes | None, Any]]:
    found: list[tuple[bytes | None, Any]] = []
    reader = LogReader({"bootstrap.servers": worker.bootstrap}, worker.topic)
    reader.read_to_end(30, lambda record: found.append((record.key, orjson.loads(record.value or b"null"))))
    reader.close()
    return found


def only_split(connector: SpoolDirectorySource, runtime: SparkRuntime) -> Split:
    (split,) = connector.splits(runtime.session)
    return split


def test_a_file_is_written_once_in_order_and_found_done_when_run_again(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a[1].csv").write_text("id,name\n" + "".join(f"{n},x{n}\n" for n in range(20_000)))
    connector = source(inbox, input_schema="id INT, name STRING")
    split = only_split(connector, runtime)
    assert worker.run(connector, split) | {"run": ""} == {"run": "", "rows": [20_000], "skipped": False}
    assert worker.run(connector, split) | {"run": ""} == {"run": "", "rows": [20_000], "skipped": True}
    assert [value for _, value in records(worker)] == [{"id": n, "name": f"x{n}"} for n in range(20_000)]
    assert list(worker.offsets().values()) == [{"done": True, "rows": 20_000}]


@pytest.mark.parametrize("rows", [10, 20_000])
def test_records_carry_the_context_of_the_trace_that_the_worker_has_begun(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, rows: int
) -> None:
    (inbox / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(rows)))
    connector = source(inbox, input_schema="id INT")
    worker.headers = [("traceparent", "00-11111111111111111111111111111111-2222222222222222-01")]
    worker.run(connector, only_split(connector, runtime))
    found: list[Any] = []
    reader = LogReader({"bootstrap.servers": worker.bootstrap}, worker.topic)
    reader.read_to_end(30, lambda record: found.append(list(record.headers)))
    reader.close()
    assert found == [[(name, value.encode()) for name, value in worker.headers]] * rows
    assert worker.commits_s[0] > 0


def files(inbox: Path, connector: SpoolDirectorySource, runtime: SparkRuntime, **rows: range) -> list[Split]:
    """Make a file of each range, and return their splits in that order."""
    for name, numbers in rows.items():
        (inbox / f"{name}.csv").write_text("id\n" + "".join(f"{n}\n" for n in numbers))
    splits = {Path(s.partition["file"]).stem: s for s in connector.splits(runtime.session)}
    return [splits[name] for name in rows]


def test_files_of_a_shared_transaction_are_in_order_with_an_offset_each(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    connector = source(inbox, input_schema="id INT")
    splits = files(
        inbox, connector, runtime, z=range(100), b=range(100, 12_000), f=range(-50, 0), a=range(12_000, 12_010)
    )
    only = {"transforms.sql": "SELECT id FROM split WHERE id >= 0"}
    expected = {"run": "", "rows": [100, 11_900, 0, 10]}
    assert worker.run(connector, *splits, **only) | {"run": ""} == expected | {"skipped": False}
    assert worker.run(connector, *splits, **only) | {"run": ""} == expected | {"skipped": True}
    assert [value["id"] for _, value in records(worker)] == list(range(12_010))
    offsets = {Path(orjson.loads(key)[1]["file"]).stem: value for key, value in worker.offsets().items()}
    assert offsets == {name: {"done": True, "rows": n} for name, n in zip("zbfa", expected["rows"], strict=True)}


def test_files_are_committed_together_or_not_at_all(worker: SplitWorker, runtime: SparkRuntime, inbox: Path) -> None:
    connector = source(inbox, input_schema="id INT")
    done, other = files(inbox, connector, runtime, done=range(3), other=range(3, 6))
    worker.unchanged = itertools.chain([False], itertools.repeat(True))
    with pytest.raises(SplitError, match="the source changed"):
        worker.run(connector, done, other)
    assert (records(worker), worker.offsets()) == ([], {})
    worker.run(connector, done)
    with pytest.raises(SplitError, match="planned again"):
        worker.run(connector, done, other)
    assert [value["id"] for _, value in records(worker)] == [0, 1, 2]


def test_a_file_in_parts_resumes_at_its_offset_after_an_interrupted_run(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(500)))
    connector = source(inbox)
    split = only_split(connector, runtime)
    worker.rows_per_commit = 200
    worker.unchanged = itertools.chain([True, True, False], itertools.repeat(True))
    with pytest.raises(SplitError, match="the source changed"):
        worker.run(connector, split)
    reading = SplitReader(connector, NO_SCHEMA).frame(runtime.session, [split]).reading
    assert list(worker.offsets().values()) == [{"rows": 400, "reading": reading}]
    assert worker.run(connector, split)["rows"] == [500]
    assert [value["id"] for _, value in records(worker)] == [str(n) for n in range(500)]


QUOTED = '"a, word"'


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns who read what was written, as it goes on."""
    found: list[str] = []

    def taken(choice: LineChoice) -> None:
        found.append("lines")
        is_taken(choice)

    def refused(choice: LineChoice) -> None:
        found.append("lines, and then Spark")
        is_refused(choice)

    is_taken, is_refused = LineChoice.taken, LineChoice.refused
    monkeypatch.setattr(LineChoice, "taken", taken)
    monkeypatch.setattr(LineChoice, "refused", refused)
    return found


def test_plain_lines_are_split_by_the_executor_and_others_by_spark_once(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, read_by: list[str]
) -> None:
    """The line that is not plain comes last, so others are in the transaction before it."""
    rows = [f"{n},{'x' * 100}" for n in range(20_000)]  # more than a block
    (inbox / "a.csv").write_text("\n".join(["id,name", *rows]))
    (inbox / "b.csv").write_text("\n".join(["id,name", *rows, f"20000,{QUOTED}\n"]))
    connector = source(inbox, input_schema="id INT, name STRING")
    splits = sorted(connector.splits(runtime.session), key=lambda split: str(split.partition["file"]))
    assert worker.run(connector, splits[0])["rows"] == [20_000]
    assert read_by == ["lines"]
    assert worker.run(connector, splits[1])["rows"] == [20_001]
    assert read_by == ["lines", "lines, and then Spark"]
    expected = [{"id": n, "name": "x" * 100} for n in range(20_000)]
    assert [value for _, value in records(worker)] == [*expected, *expected, {"id": 20_000, "name": "a, word"}]


def test_lines_of_a_group_of_files_are_split_with_the_columns_of_each_file(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, read_by: list[str]
) -> None:
    contents = {"a": "id,name\n1,x\n2,\n", "b": "id,name\n", "c": "id,name\n\n3,z\n", "d": "id,other\n4,w\n"}
    for name, content in contents.items():
        (inbox / f"{name}.csv").write_text(content)
    connector = source(inbox)
    a, b, c, d = sorted(connector.splits(runtime.session), key=lambda split: str(split.partition["file"]))
    assert worker.run(connector, a, b, c)["rows"] == [2, 0, 1]
    assert read_by == ["lines"]
    alike = [{"id": "1", "name": "x"}, {"id": "2", "name": None}, {"id": "3", "name": "z"}]
    assert [value for _, value in records(worker)] == alike
    (inbox / "a.csv").write_text(contents["a"] + "\n")
    again = next(split for split in connector.splits(runtime.session) if split.partition["file"].endswith("a.csv"))
    assert worker.run(connector, again, d)["rows"] == [2, 1]
    assert read_by == ["lines"]
    assert [value for _, value in records(worker)][3:] == [*alike[:2], {"id": "4", "other": "w"}]


def test_a_file_in_parts_continues_with_spark_after_its_plain_lines(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, read_by: list[str]
) -> None:
    rows = [f"{n},{'x' * 100}" for n in range(25_000)]
    (inbox / "a.csv").write_text("\n".join(["id,name", *rows, f"25000,{QUOTED}\n"]))
    connector = source(inbox)
    worker.rows_per_commit = 4_000
    assert worker.run(connector, only_split(connector, runtime))["rows"] == [25_001]
    assert read_by == ["lines, and then Spark"]
    assert [found and found["rows"] > 0 for (found,) in worker.positions] == [None, True]
    assert [value["id"] for _, value in records(worker)] == [str(n) for n in range(25_001)]


def test_lines_are_no_longer_split_after_several_files_with_quoted_values(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, read_by: list[str]
) -> None:
    connector = source(inbox)
    for n, value in enumerate([QUOTED, QUOTED, "plain", QUOTED, QUOTED, QUOTED, "plain"]):
        (inbox / f"{n}.csv").write_text(f"id,name\n{n},{value}\n")
    for split in sorted(connector.splits(runtime.session), key=lambda split: str(split.partition["file"])):
        worker.run(connector, split)
    assert read_by == [*["lines, and then Spark"] * 2, "lines", *["lines, and then Spark"] * 3]
    assert [value["id"] for _, value in records(worker)] == [str(n) for n in range(7)]


def test_lines_are_split_when_settings_need_no_parser_of_spark(runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.csv").write_text("id,name\n1,2026-11-25\n")
    splits = list(source(inbox).splits(runtime.session))
    assert SplitReader(source(inbox), NO_SCHEMA).frame(runtime.session, splits).csv
    assert not SplitReader(source(inbox), NO_SCHEMA, is_exactly_once=False).frame(runtime.session, splits).csv


@pytest.mark.parametrize(
    "settings",
    [
        {"key.field": "id"},
        {"transforms.sql": "SELECT id, name FROM split"},
        {
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "transforms.sql": "SELECT id FROM split",
        },
        {"reader.quote": "'"},
        {"reader.header": "false"},
        {"reader.multiLine": "true"},
        {"input.schema": "id STRING, name DATE"},
        {"input.schema": "id STRING, _Corrupt_Record STRING"},
    ],
)
def test_lines_are_not_split_when_settings_need_the_parser_of_spark(
    runtime: SparkRuntime, inbox: Path, settings: dict[str, str]
) -> None:
    (inbox / "a.csv").write_text("id,name\n1,2026-11-25\n")
    connector = source(inbox, **settings)
    properties = NO_SCHEMA | settings
    splits = list(connector.splits(runtime.session))
    assert not SplitReader(connector, properties).frame(runtime.session, splits).csv


def cut_off(worker: SplitWorker, connector: SpoolDirectorySource, split: Split, **properties: str) -> None:
    """Run a split in parts of two rows, and end the run when two parts are committed."""
    worker.rows_per_commit = 2
    worker.unchanged = itertools.chain([True, True, False], itertools.repeat(True))
    with pytest.raises(SplitError, match="the source changed"):
        worker.run(connector, split, **properties)


def test_a_file_in_parts_resumes_only_with_the_same_query(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(10)))
    connector = source(inbox, input_schema="id INT")
    split = only_split(connector, runtime)
    query = {"transforms.sql": "SELECT id FROM split WHERE id < 9"}
    cut_off(worker, connector, split, **query)
    for change, named in [
        ({"transforms.sql": "SELECT id FROM split WHERE id % 2 = 0"}, r"transforms\.sql"),
        ({}, "sql"),
    ]:
        with pytest.raises(ReadingChangedError, match=f"4 rows of .*a.csv.* are committed.*{named} changed"):
            worker.run(connector, split, **change)
    with pytest.raises(ReadingChangedError, match=r": reader\.sep changed"):
        worker.run(source(inbox, input_schema="id INT", reader_sep=";"), split, **query)
    assert worker.run(connector, split, **query)["rows"] == [9]
    assert [value["id"] for _, value in records(worker)] == list(range(9))
    assert list(worker.offsets().values()) == [{"done": True, "rows": 9}]


def test_a_file_in_parts_does_not_resume_with_other_columns_or_time_zone(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(10)))
    connector = source(inbox, input_schema="id INT")
    split = only_split(connector, runtime)
    cut_off(worker, connector, split)
    with pytest.raises(ReadingChangedError, match=": columns changed"):
        worker.run(source(inbox, input_schema="id STRING"), split)
    zone, conf = "spark.sql.session.timeZone", runtime.session.conf
    before = conf.get(zone)
    conf.set(zone, "Asia/Tokyo")
    try:
        with pytest.raises(ReadingChangedError, match=f": {zone} changed"):
            worker.run(connector, split)
    finally:
        conf.set(zone, before)
    assert worker.run(connector, split)["rows"] == [10]


OF_NOW = [
    "current_date()", "now()", "localtimestamp()", "current_time()", "unix_timestamp()", "curdate()",
    "current_timezone()", "current_user()", "session_user()", "current_catalog()", "current_database()",
    "coalesce(CAST(d AS TIMESTAMP), now())", "date_diff(current_date, CAST(d AS DATE))", "rand()", "uuid()",
    "CAST('today' AS DATE)", "CAST(concat('to', 'day') AS DATE)", "to_timestamp('now')",
    "CAST(d AS DATE) > 'yesterday'", "DATE 'today'", "TIMESTAMP 'tomorrow'",
]  # fmt: skip
OF_THE_ROW = [
    "id", "id + 1", "CAST(d AS TIMESTAMP)", "CAST(d AS DATE) > '2026-01-01'", "DATE '2026-01-01'", "pi()",
    "date_format(d, 'yyyy')", "transform(array(id), x -> x + 1)", "coalesce(d, 'nowhere')",
]  # fmt: skip


def test_rows_that_depend_on_when_and_where_they_are_read_are_not_exact(runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.csv").write_text("id,d\n1,2026-11-22\n")
    connector = source(inbox, input_schema="id INT, d STRING")
    split = only_split(connector, runtime)

    def is_exact(sql: str) -> bool:
        return SplitReader(connector, NO_SCHEMA | {"transforms.sql": sql}).is_exact(runtime.session, split)

    assert [each for each in OF_NOW if is_exact(f"SELECT {each} AS x FROM split")] == []
    assert [each for each in OF_THE_ROW if not is_exact(f"SELECT {each} AS x FROM split")] == []
    assert not is_exact("SELECT id FROM split WHERE CAST(d AS DATE) < current_date()")
    assert SplitReader(connector, NO_SCHEMA).is_exact(runtime.session, split)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_columns_of_a_file_do_not_depend_on_earlier_files(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, kind: str
) -> None:
    """Also after a restart of the worker, so that a file in parts goes on."""
    contents = {
        "json": ['{"id": 1}\n', '{"id": 2, "name": "x"}\n', '{"id": "three"}\n'],
        "csv": ["id\n1\n", "id,name\n2,x\n", "id\nthree\n"],
    }[kind]
    settings = {"input_format": kind, "reader_inferSchema": "true"}
    connector = source(inbox, **settings)
    for name, content in zip("abc", contents, strict=True):
        (inbox / f"{name}.{kind}").write_text(content)
    splits = {Path(s.partition["file"]).stem: s for s in connector.splits(runtime.session)}
    for name in "abc":
        worker.run(connector, splits[name])
    assert [value for _, value in records(worker)] == [{"id": 1}, {"id": 2, "name": "x"}, {"id": "three"}]
    again = SplitReader(source(inbox, **settings), NO_SCHEMA).frame(runtime.session, [splits["b"]])
    assert again.reading == SplitReader(connector, NO_SCHEMA).frame(runtime.session, [splits["b"]]).reading


def test_a_broken_row_commits_nothing_and_makes_the_file_unreadable(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(30_000)) + "oops\n")
    connector = source(inbox, input_schema="id INT")
    split = only_split(connector, runtime)
    with pytest.raises(SplitError, match="oops") as raised:
        worker.run(connector, split)
    assert is_unreadable(raised.value)
    assert records(worker) == []
    connector.set_aside(runtime.session, split, raised.value)
    assert (inbox / ".failed" / "a.csv").exists()
    assert list(connector.splits(runtime.session)) == []


@pytest.mark.parametrize("date", ["20200101", "12", "-5"])
def test_digits_alone_are_no_date(worker: SplitWorker, runtime: SparkRuntime, inbox: Path, date: str) -> None:
    """Spark would take them for days since 1970."""
    (inbox / "a.json").write_text(f'{{"d":"{date}"}}')
    connector = source(inbox, input_schema="d DATE", input_format="json")
    with pytest.raises(SplitError) as raised:
        worker.run(connector, only_split(connector, runtime))
    assert is_unreadable(raised.value)
    (inbox / "a.json").write_text('{"d":"2020-01-01"}')
    worker.run(connector, only_split(connector, runtime))
    assert [value for _, value in records(worker)] == [{"d": "2020-01-01"}]


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize(
    ("settings", "head_bytes"),
    [({}, HEAD_BYTES), ({}, 8), ({"input_schema": "id INT, v STRING"}, HEAD_BYTES), ({"reader_multiLine": "true"}, 8)],
    ids=["small", "large", "columns", "told"],
)
def test_a_file_that_ends_within_a_quoted_value_is_unreadable(
    worker: SplitWorker,
    runtime: SparkRuntime,
    inbox: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    head_bytes: int,
    tolerance: str,
) -> None:
    """Else Spark makes one value of the rows that follow."""
    monkeypatch.setattr(csv_layout, "HEAD_BYTES", head_bytes)
    monkeypatch.setattr(spool, "HEAD_BYTES", head_bytes)
    (inbox / "a.csv").write_text('id,v\n1,"a\nb"\n2,"open\n3,b\n4,c\n')
    connector = source(inbox, **settings, errors_tolerance=tolerance)
    with pytest.raises(RecordError, match=r"a\.csv ends within a quoted value"):
        worker.run(connector, only_split(connector, runtime))
    assert records(worker) == []
    (inbox / "a.csv").write_text('id,v\n1,"a\nb"\n2,"closed"\n3,b\n')
    worker.run(connector, only_split(connector, runtime))
    assert [value["v"] for _, value in records(worker)] == ["a\nb", "closed", "b"]


def test_broken_rows_are_dropped_when_errors_are_tolerated(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").write_text("id\n1\noops\n2\n")
    connector = source(inbox, input_schema="id INT", errors_tolerance="all")
    worker.run(connector, only_split(connector, runtime))
    assert [value for _, value in records(worker)] == [{"id": 1}, {"id": 2}]


def test_sql_projects_and_filters_and_a_key_is_taken(worker: SplitWorker, runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": null}\n')
    connector = source(inbox, input_format="json")
    properties = {
        "transforms.sql": "WITH big AS (SELECT * FROM split WHERE id > 1) SELECT id + 1 AS n, name FROM big",
        "key.field": "n",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    worker.run(connector, only_split(connector, runtime), **properties)
    assert records(worker) == [(b"3", {"n": 3, "name": None})]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM split",
        "SELECT * FROM split ORDER BY id",
        "SELECT DISTINCT id FROM split",
        "SELECT a.id FROM split a JOIN split b ON a.id = b.id",
        "SELECT * FROM split LIMIT 1",
        "SELECT * FROM split WHERE id = (SELECT max(id) FROM split)",
        "SELECT nonsense FROM split",
    ],
)
def test_sql_that_does_more_is_refused(runtime: SparkRuntime, inbox: Path, query: str) -> None:
    (inbox / "a.csv").write_text("id\n1\n")
    connector = source(inbox)
    reader = SplitReader(connector, NO_SCHEMA | {"transforms.sql": query})
    with pytest.raises(ConfigError, match=r"transforms\.sql"):
        reader.frame(runtime.session, [only_split(connector, runtime)])


def test_values_carry_their_schema_when_the_converter_says_so(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").write_text("id,on,price\n1,2026-11-21,2.50\n")
    connector = source(inbox, input_schema="id INT, on DATE, price DECIMAL(5,2)")
    worker.run(connector, only_split(connector, runtime), **{"value.converter.schemas.enable": "true"})
    ((_, value),) = records(worker)
    assert [(f["field"], f["type"], f.get("name", "")[-7:]) for f in value["schema"]["fields"]] == [
        ("id", "int32", ""), ("on", "int32", "ta.Date"), ("price", "bytes", "Decimal"),
    ]  # fmt: skip
    assert value["payload"] == {"id": 1, "on": 20778, "price": "AAAAAAAAAPo="}


def test_lines_of_text_are_plain_values(worker: SplitWorker, runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.txt").write_text("one\ntwo\n")
    connector = source(inbox, input_format="text")
    worker.run(connector, only_split(connector, runtime))
    assert [value for _, value in records(worker)] == ["one", "two"]


def test_an_empty_file_is_done_without_records(worker: SplitWorker, runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.csv").touch()
    connector = source(inbox)
    assert worker.run(connector, only_split(connector, runtime))["rows"] == [0]
    assert list(worker.offsets().values()) == [{"done": True, "rows": 0}]


def test_an_empty_file_is_done_although_settings_name_columns(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").touch()
    named = {"key.field": "id", "transforms.sql": "SELECT id FROM split"}
    assert worker.run(source(inbox), only_split(source(inbox), runtime), **named)["rows"] == [0]


def test_a_file_without_the_columns_of_earlier_files_is_unreadable(runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.csv").write_text("name\nx\n")
    (inbox / "b.csv").write_text("id\n1\n")
    connector = source(inbox)
    splits = {Path(s.partition["file"]).name: s for s in connector.splits(runtime.session)}
    misfit, fitting = splits["a.csv"], splits["b.csv"]
    for named in ({"key.field": "id"}, {"transforms.sql": "SELECT id FROM split"}):
        reader = SplitReader(connector, NO_SCHEMA | named)
        with pytest.raises(ConfigError, match=next(iter(named))):
            reader.frame(runtime.session, [misfit])
        with pytest.raises(RecordError, match=next(iter(named))):
            reader.frame(runtime.session, [misfit, fitting])
        with pytest.raises(RecordError, match="other splits fit"):
            reader.frame(runtime.session, [misfit])


def test_columns_of_a_file_are_inferred_after_a_first_file_without_columns(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    connector = source(inbox, input_format="json")
    (inbox / "a.json").write_text("{}\n")
    connector.read(runtime.session, only_split(connector, runtime))
    (inbox / "a.json").write_text('{"id": 1}\n')
    worker.run(connector, only_split(connector, runtime))
    assert [value for _, value in records(worker)] == [{"id": 1}]


def test_identity_changes_with_the_file_and_hidden_names_are_left_alone(runtime: SparkRuntime, inbox: Path) -> None:
    for name in ("a.csv", ".hidden.csv", "_temporary.csv", "b.txt"):
        (inbox / name).write_text("id\n1\n")
    (inbox / "directory.csv").mkdir()
    connector = source(inbox, input_pattern="*.csv")
    before = only_split(connector, runtime)
    assert before.partition["file"].endswith("/inbox/a.csv")
    assert connector.is_unchanged(runtime.session, before)
    os.utime(inbox / "a.csv", (1, 1))
    assert not connector.is_unchanged(runtime.session, before)
    assert only_split(connector, runtime).partition != before.partition


def test_a_file_with_a_name_that_spark_refuses_is_set_aside_alone(
    runtime: SparkRuntime, inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit = [
        "a.csv",
        "new\nline.csv",
        "per%41cent%.csv",
        "g[l]{o,b}*?.csv",
        "end.csv ",
        "back\\slash.csv",
        "é😀.csv",
        "#&;.csv",
    ]
    for name in (*fit, b"a:b.csv", b"bad\xff.csv", b".hid:den.csv", b"_too:\xff.csv", b"other:kind.txt", b"C:"):
        path = os.path.join(os.fsencode(inbox), name if isinstance(name, bytes) else name.encode())
        with open(path, "w") as file:
            file.write("id,name\n1,x\n")
    connector = source(inbox, input_pattern="*.csv*")
    for _ in range(2):
        splits = {str(split.partition["file"]).rpartition("/")[2]: split for split in connector.splits(runtime.session)}
        assert sorted(splits) == sorted(fit)
    for split in splits.values():
        assert [tuple(row) for row in connector.read(runtime.session, split).collect()] == [("1", "x")]
    assert sorted(os.listdir(inbox / ".failed")) == ["a%3Ab.csv", "bad%FF.csv"]
    assert sorted(set(os.listdir(os.fsencode(inbox))) - {name.encode() for name in fit}) == [
        b".failed", b".hid:den.csv", b"C:", b"_too:\xff.csv", b"other:kind.txt",
    ]  # fmt: skip
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 2
    assert all("Rename it, and put it back" in text for text in told)


def test_a_file_that_is_being_written_waits_for_its_age(runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.csv").write_text("id\n1\n")
    connector = source(inbox, min_age_ms="60000")
    assert list(connector.splits(runtime.session)) == []
    os.utime(inbox / "a.csv", (1, 1))
    assert len(list(connector.splits(runtime.session))) == 1


def test_moving_or_deleting_a_finished_file_again_does_no_harm(
    runtime: SparkRuntime, inbox: Path, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    mover = source(inbox, finished_action="move", finished_path=str(done))
    for _ in range(2):
        (inbox / "a.csv").write_text("id\n1\n")
        split = only_split(mover, runtime)
        assert mover.finished(runtime.session, split, 1)
        assert mover.finished(runtime.session, split, 1)
    assert len(list(done.glob("*a.csv"))) == 2
    remover = source(inbox, finished_action="delete")
    (inbox / "a.csv").write_text("id\n1\n")
    split = only_split(remover, runtime)
    (inbox / "a.csv").write_text("id\n1\n2\n")
    assert remover.finished(runtime.session, split, 1)
    assert (inbox / "a.csv").exists(), "another file under the same name stays"
    assert remover.finished(runtime.session, only_split(remover, runtime), 2)
    assert not (inbox / "a.csv").exists()


def test_a_file_that_cannot_be_moved_stays_and_is_tried_again(
    runtime: SparkRuntime, inbox: Path, tmp_path: Path
) -> None:
    (tmp_path / "done").write_text("a file stands where the directory should be")
    (inbox / "a.csv").write_text("id\n1\n")
    mover = source(inbox, finished_action="move", finished_path=str(tmp_path / "done"))
    assert not mover.finished(runtime.session, only_split(mover, runtime), 1)
    assert (inbox / "a.csv").read_text() == "id\n1\n"


def test_a_missing_directory_is_named(runtime: SparkRuntime, inbox: Path) -> None:
    with pytest.raises(ConfigError, match=r"input\.path=.*there is no such directory"):
        list(source(inbox / "nowhere").splits(runtime.session))


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("a.parquet", b"this is no parquet", {"input_format": "parquet"}),
        ("a.json", b'{"id": 1}\n{"id": \n', {"input_format": "json"}),
        ("a.csv.gz", gzip.compress(b"id\n" + b"1\n" * 10_000, mtime=0)[:-20], {}),
        ("a.csv", b"id\n1\njava.io.FileNotFoundException: /x does not exist\n", {"input_schema": "id INT"}),
    ],
    ids=[
        "not-parquet",
        "cut-json",
        "cut-gzip",
        "names-another-error",
    ],  # made of the content they would hold the second gzip ran in
)
def test_broken_content_is_distinguished_from_transient_errors(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, name: str, content: bytes, settings: dict[str, str]
) -> None:
    (inbox / name).write_bytes(content)
    connector = source(inbox, **settings)
    split = only_split(connector, runtime)
    with pytest.raises(Exception) as raised:
        worker.run(connector, split)
    assert is_unreadable(raised.value), repr(raised.value)
    assert records(worker) == []


def test_an_error_of_the_writer_is_never_taken_for_broken_content(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    def refusals() -> Iterator[bool]:
        raise RefusedError("the run of anti-corruption-feed is over: MALFORMED_RECORD")
        yield True

    (inbox / "a.csv").write_text("id\n1\n")
    connector = source(inbox, input_schema="id INT")
    worker.unchanged = refusals()
    with pytest.raises(SplitError, match="anti-corruption-feed") as raised:
        worker.run(connector, only_split(connector, runtime))
    assert not is_unreadable(raised.value)


def test_a_missing_file_is_not_taken_for_broken_content(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path
) -> None:
    (inbox / "a.csv").write_text("id\n1\n")
    connector = source(inbox, input_schema="id INT")
    split = only_split(connector, runtime)
    (inbox / "a.csv").unlink()
    with pytest.raises(Exception) as raised:
        worker.run(connector, split)
    assert not is_unreadable(raised.value)


@pytest.mark.parametrize("chooses_client", [True, False], ids=["batch client", "librdkafka"])
def test_an_expired_transaction_is_reported_to_the_worker(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, chooses_client: bool
) -> None:
    """And of no other error. What is sent has to be more than a client holds back.

    On a slow machine librdkafka gives up by its own clock, the transaction's, before a broker refuses the rest.
    """
    worker.chooses_client = chooses_client
    (inbox / "a.csv").write_text("id\n" + f"{'x' * 500}\n" * 20_000)
    connector = source(inbox)
    split = only_split(connector, runtime)
    worker.producer_conf |= {"transaction.timeout.ms": "1000"}
    worker.unchanged = wait_until_expired(worker, then=[True])
    with pytest.raises(SplitError, match=r"WriterFencedError|ProduceError: _TIMED_OUT"):
        worker.run(connector, split)
    assert [after_s >= 1 for after_s in worker.expired] == [True]
    worker.producer_conf |= {"transaction.timeout.ms": "60000"}
    worker.unchanged = iter([False])
    with pytest.raises(SplitError, match="the source changed"):
        worker.run(connector, split)
    assert len(worker.expired) == 1
    assert (records(worker), worker.offsets()) == ([], {})


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.END_TXN])
def test_the_run_after_a_lost_connection_writes_the_missing_rows(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, api_key: int
) -> None:
    """The batch client ends with its connection."""
    (inbox / "a.csv").write_text("id,name\n" + "".join(f"{n},x\n" for n in range(1_000)))
    connector = source(inbox)
    split = only_split(connector, runtime)
    with KafkaProxy(worker.bootstrap) as proxy:
        worker.producer_conf |= {"bootstrap.servers": proxy.bootstrap_servers}
        lost = proxy.on(api_key, Action.ANSWER_LOST)
        with pytest.raises(SplitError):
            worker.run(connector, split)
        assert lost.met == 1
        assert len(worker.troubles) == 1, worker.troubles
        assert worker.expired == []
        assert worker.run(connector, split)["rows"] == [1_000]
    assert [value["id"] for _, value in records(worker)] == [str(n) for n in range(1_000)]
    assert len(worker.troubles) == 1


def test_a_refused_record_is_not_a_transient_error(worker: SplitWorker, runtime: SparkRuntime, inbox: Path) -> None:
    (inbox / "a.csv").write_text("id,name\n1," + "x" * 2_000_000 + "\n")
    connector = source(inbox)
    split = only_split(connector, runtime)
    with pytest.raises(SplitError, match="too large"):
        worker.run(connector, split)
    assert (worker.troubles, records(worker)) == ([], [])


@pytest.mark.parametrize("chooses_client", [True, False], ids=["batch client", "librdkafka"])
def test_files_are_written_alike_by_either_client(
    worker: SplitWorker, runtime: SparkRuntime, inbox: Path, chooses_client: bool
) -> None:
    worker.chooses_client = chooses_client
    (inbox / "a.json").write_text("".join(f'{{"id": {n}, "name": "x{n}"}}\n' for n in range(30_000)))
    connector = source(inbox, input_format="json")
    split = only_split(connector, runtime)
    properties = {"key.field": "id", "key.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert worker.run(connector, split, **properties)["rows"] == [30_000]
    assert records(worker) == [(str(n).encode(), {"id": n, "name": f"x{n}"}) for n in range(30_000)]


def wait_until_expired(worker: SplitWorker, then: list[bool]) -> Iterator[bool]:
    """Answer the first question once the broker has ended the transaction, of itself."""
    admin, id_ = TransactionAdmin({"bootstrap.servers": worker.bootstrap}), f"{worker.topic}-0"
    eventually(lambda: admin.describe([id_])[id_].state == "CompleteAbort", within_s=60)
    admin.close()
    yield from then
