"""The Python of the pages runs: what no other test of this directory runs, runs here. No Spark."""

import ast
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from page import ROOT, blocks

from fencepost.api import (
    ConfigError,
    Record,
    SourceConnector,
    SourceRecord,
    SourceTask,
    StreamConnector,
    StreamTask,
    Transform,
)
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import SinkRun, SourceRun, StreamRun, TransformConformance, log_of
from support.conformance_verdicts import verdicts

HOW_TO = ROOT / "docs/how-to"
# All of them: integration/spark/test_kafka_read, test_registry_read, test_data_source.
_RUN_ELSEWHERE = {"read-kafka-from-spark.md", "write-kafka-from-spark.md"}


def names_of(page: str, text: str) -> dict[str, Any]:
    """Run the block of a page that holds a text, and return the names that it defines."""
    [found] = [b.text for b in blocks("python") if b.page == HOW_TO / page and text in b.text]
    names: dict[str, Any] = {"__name__": f"block_of_{page.partition('.')[0].replace('-', '_')}"}
    exec(compile(found, page, "exec"), names)  # the page's own code
    return names


def _defined(text: str) -> list[str]:
    return [each.name for each in ast.parse(text).body if isinstance(each, ast.ClassDef | ast.FunctionDef)]


def test_every_block_of_python_is_run_by_a_test() -> None:
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    left = [
        block.name
        for block in blocks("python")
        if block.page.name not in _RUN_ELSEWHERE
        if not any(name in tests for name in _defined(block.text))
        if 'writeStream.format("fencepost")' not in block.text  # test_readme_query
    ]
    assert left == []


def test_a_schema_of_a_dataclass_is_the_one_written_by_hand() -> None:
    assert names_of("write-a-connector.md", "class Price:")["PRICE"].name == "com.example.Price"


def test_a_generator_function_goes_on_where_it_was() -> None:
    ticks = names_of("write-a-connector.md", "def ticks(")["TicksConnector"]
    run = SourceRun(ticks, {"pause.s": 0.001})
    assert [run.poll()[0].value for _ in range(2)] == [{"n": 1}, {"n": 2}]
    run.commit()
    run.crash()
    assert SourceRun(ticks, {"pause.s": 0.001}, store=run.store).poll()[0].value == {"n": 3}


def test_offsets_without_records_are_committed() -> None:
    class QuietTask(SourceTask):
        update_offsets = names_of("write-a-connector.md", "def update_offsets(")["update_offsets"]
        confirmed_lsn, finished = 17, "a.txt"

        def poll(self) -> None: ...

    class QuietConnector(SourceConnector):
        task = QuietTask

    run = SourceRun(QuietConnector)
    run.poll()
    run.commit()
    assert run.store.pairs() == [({"slot": "orders"}, {"lsn": 17})]


def test_the_stamp_of_the_page_gives_the_same_on_columns() -> None:
    class Stamps(TransformConformance):
        transform = names_of("write-a-connector.md", "class Stamp(")["Stamp"]
        config = {"text": "new"}
        values = [{"a": 1}, {"a": 2}, {"b": 3}]

    assert set(verdicts(Stamps).values()) == {"passed"}


def test_the_suffix_transform_of_the_page_is_appended_to_topics() -> None:
    suffix: type[Transform] = names_of("write-a-connector.md", "class Suffix(")["Suffix"]
    record: Record | None = suffix({"suffix": "-new"}).apply(SourceRecord({}, {}, "orders"))  # type: ignore[assignment]
    assert record is not None
    assert record.topic == "orders-new"


@pytest.mark.parametrize(("page", "name"), [("write-a-connector.md", "TestFileStream")])
def test_the_tests_of_the_pages_pass(page: str, name: str) -> None:
    found = verdicts(names_of(page, f"class {name}(")[name])
    assert set(found.values()) <= {"passed", "skipped"}, found
    assert len(found) == 6


def test_the_log_of_the_page_has_its_lines_after_a_flush(tmp_path: Path) -> None:
    connector = names_of("write-a-sink.md", "class LogSinkTask(")["LogSinkConnector"]
    log = log_of([{"word": "one"}, {"word": "two"}], topic="words", partitions=1)
    run = SinkRun(connector, {"path": tmp_path / "log"})
    run.open(*log)
    run.deliver(log)
    run.commit()
    assert (tmp_path / "log").read_text() == "words 0 {'word': 'one'}\nwords 1 {'word': 'two'}\n"


def test_missing_prices_are_reported_and_other_records_are_passed_on() -> None:
    class PricesConnector(StreamConnector):
        task: type[StreamTask] = names_of("write-a-stream-task.md", "class PricesTask(")["PricesTask"]

    run = StreamRun(PricesConnector, {"topics": "texts"})
    [records] = log_of(["1.5", "none", "2"], topic="texts", partitions=1).values()
    assert [(each.topic, each.value) for each in run.process(records)] == [("prices", 1.5), ("prices", 2.0)]
    assert [record.value for record, _ in run.reported] == ["none"]


def test_the_provider_of_the_page_looks_up_values_and_names_missing_ones(tmp_path: Path) -> None:
    provider = names_of("secrets.md", "class NetrcConfigProvider(")["NetrcConfigProvider"]
    (tmp_path / "netrc").write_text("machine db.example login shop password s3cret\n")
    made = provider({"file": str(tmp_path / "netrc")})
    assert made.get("db.example", {"password", "login", "nothing"}).values == {"password": "s3cret", "login": "shop"}
    with pytest.raises(ConfigError, match=r"has no machine other: add it"):
        made.get("other", {"password"})
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        provider({"file": str(tmp_path / "none")}).get("db.example", {"password"})


@pytest.mark.drawn(8)
def test_the_pipeline_test_of_the_page_judges_the_arrived_records(
    kafka: EmbeddedKafka, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the Kafka that all tests share, and a topic that no other test has."""
    monkeypatch.setattr("fencepost.testing.pipeline.EmbeddedKafka", lambda: nullcontext(kafka))
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.ensure(topic_name, partitions=1, replication=1)
    text = "def test_numbers_arrive_once_although_the_process_is_killed("
    [block] = [b.text for b in blocks("python") if text in b.text]
    names: dict[str, Any] = {}
    exec(compile(block.replace('"numbers"', f'"{topic_name}"'), "the page", "exec"), names)
    names["test_numbers_arrive_once_although_the_process_is_killed"]()
