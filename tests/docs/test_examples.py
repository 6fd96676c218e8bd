"""Configs in the pages are valid, and the connectors in them do what the pages say. No worker, no Spark."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import filterfalse, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from page import PAGES, ROOT, Block, blocks
from typer.main import get_command

import fencepost.api
import fencepost.testing
from fencepost.api import (
    Batch,
    DataFrameConnector,
    FencedError,
    FencingToken,
    SinkBatch,
    SinkRecord,
    SourceConnector,
    SourceTask,
    TopicPartition,
)
from fencepost.builtin.mirror.dedicated import MirrorFile
from fencepost.cli.connector.dead_letters import lines, summary
from fencepost.cli.main import app
from fencepost.config.file import parse_properties
from fencepost.config.worker import WorkerConfig
from fencepost.dead_letter.letter import DeadLetter
from fencepost.kafka.read.browse import TopicRecord
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import translate
from fencepost.plugin import PluginKind
from fencepost.plugin.registry import PluginRegistry
from fencepost.task.failure.dead_letter import TIMESTAMP
from fencepost.worker.validation.validation import require_valid, validate_connector

_WORKER = {
    "group.id": "g",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "status",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "exactly.once.source.support": "enabled",
}
_BODY = re.compile(r"connectors(?:/([\w-]+))?[^\n]* -d '\n(.*?)'", re.DOTALL)
_COMMAND = re.compile(r"(?:\.venv/bin/|^|`)fencepost ((?:[a-z]+(?:-[a-z]+)* ?)+)((?: ?--?\S+ \S+)*)", re.MULTILINE)
_LOOKED_UP = {
    "${file:/run/secrets/kafka.properties:jaas}": (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="shop" password="p";'
    ),
    "${file:/etc/fencepost/shop.properties:password}": "secret",
    "${env:SHOP_TOPIC}": "orders",
}
"""The values that the references of the pages stand for."""
_MISTAKE = '"batch.size": "0"'


class Sent(NamedTuple):
    """A body of a request in a page."""

    block: Block
    body: dict[str, Any]
    name: str = ""
    """The connector that it is sent to, as far as the page says it."""


def _python(page: str, text: str) -> str:
    """Return the Python block of a page that holds `text`."""
    [found] = [b.text for b in blocks("python") if b.page == ROOT / page and text in b.text]
    return found


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> PluginRegistry:
    """The connectors of the pages, as plug-ins of a directory."""
    directory = tmp_path_factory.mktemp("plugins")
    for name, page, text in (
        ("counter", "README.md", "CounterTask"),
        ("wordlist", "docs/tutorial/first-pipeline.md", "WordListTask"),
        ("shop_orders", "docs/tutorial/first-connector.md", "class ShopOrdersTask"),
        ("orders", "docs/how-to/write-a-connector.md", "OrdersTask"),
        ("parquetfiles", "docs/how-to/write-a-connector.md", "ParquetConnector"),
        ("suffix", "docs/how-to/write-a-connector.md", "class Suffix("),
        ("suffixpolicy", "docs/how-to/write-a-connector.md", "class SuffixPolicy("),
        ("logsink", "docs/how-to/write-a-sink.md", "LogSinkTask"),
        ("longwords", "docs/how-to/write-a-stream-task.md", "LongWordsTask"),
        ("tablesink", "docs/how-to/write-a-sink.md", "TableSinkTask"),
        ("parquetepochs", "docs/how-to/write-a-dataframe-sink.md", "class ParquetEpochs"),
        ("sqlitesink", "docs/how-to/write-a-dataframe-sink.md", "class SqliteSink"),
    ):
        (directory / f"{name}.py").write_text(_python(page, text))
    found = PluginRegistry([str(directory)])
    assert found.failures() == ()
    return found


class Context:
    """A task's context that waits for nothing."""

    is_stopping = False

    def __init__(self, offsets: Mapping[str, Any] | None = None) -> None:
        self._offset = dict(offsets or {})
        self.asked: list[str] = []
        self.transaction = self

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        return self._offset

    def wait(self, timeout_s: float) -> bool:
        return False

    def wake(self) -> None: ...

    def commit_transaction(self, record: object = None) -> None:
        self.asked.append("commit")


def _started(registry: PluginRegistry, name: str, config: Mapping[str, str], offset: Any = None) -> SourceTask:
    connector: type[SourceConnector] = registry.find(PluginKind.CONNECTOR, name)
    task = connector.task()
    task.initialize(Context(offset), connector(connector(config).task_configs(1)[0]))  # type: ignore[arg-type]
    task.start()
    return task


def _polled(task: SourceTask) -> Batch:
    batch = task.poll()
    assert isinstance(batch, Batch)
    return batch


def test_connector_of_the_readme_has_ten_lines_and_resumes_at_its_offset(registry: PluginRegistry) -> None:
    lines = [line for line in _python("README.md", "CounterTask").splitlines() if line.strip()]
    assert len(lines) == 10
    assert list(_polled(_started(registry, "Counter", {})).values) == [{"n": 1}]
    task = _started(registry, "Counter", {}, {"n": 41})
    batch = _polled(task)
    assert list(batch.values) == [{"n": 42}]
    assert list(batch.source_offsets) == [{"n": 42}]
    assert batch.topics[0] == "numbers"


def test_connector_of_the_tutorial_resumes_after_the_committed_words(registry: PluginRegistry, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one two three fo")
    config = {"files": str(file), "topic": "words", "batch.size": "2"}
    task = _started(registry, "WordList", config)
    assert [row["word"] for row in _polled(task).values] == ["one", "two"]
    assert [row["word"] for row in _polled(task).values] == ["three"]
    assert task.poll() is None
    batch = _polled(_started(registry, "WordList", config, {"number": 2}))
    assert list(batch.source_offsets) == [{"number": 3}]


def test_the_connector_of_the_tutorial_divides_its_files(registry: PluginRegistry) -> None:
    connector = registry.find(PluginKind.CONNECTOR, "WordList")({"files": "a,b,c", "topic": "words"})
    assert [own["files"] for own in connector.task_configs(2)] == ["a,c", "b"]
    assert len(connector.task_configs(9)) == 3


class SinkContext:
    """What a sink's task asks for, for one partition that is its own."""

    def __init__(self, token: FencingToken) -> None:
        self.fencing_token = token
        self.begins: dict[TopicPartition, int] = {}

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.begins.update(offsets)


def test_a_transactional_sink_fences_a_replaced_task_and_resumes_at_its_offset(
    registry: PluginRegistry, tmp_path: Path
) -> None:
    place, config = TopicPartition("words", 0), {"database": str(tmp_path / "words.db")}
    kind = registry.find(PluginKind.CONNECTOR, "TableSink")

    def opened(task_generation: int, group_generation: int) -> Any:
        task = kind.task()
        task.initialize(SinkContext(FencingToken(task_generation, group_generation)), kind(config))
        task.start()
        task.open([place])
        return task

    def words(*offsets: int) -> SinkBatch:
        return SinkBatch.of_records(
            [SinkRecord(*place, offset, {"word": f"word {offset}"}, at=place) for offset in offsets]
        )

    first = opened(5, 9)
    assert first.context.begins == {}
    first.put(words(0, 1))
    second = opened(5, 10)
    assert second.context.begins == {place: 2}
    with pytest.raises(FencedError, match="another task's"):
        first.put(words(2, 3))
    second.put(words(2))
    third = opened(6, 1)  # tasks of a new config, in a group that counts anew
    with pytest.raises(FencedError):
        second.put(words(3))
    third.put(words(3))
    assert third.db.execute("SELECT kafka_offset FROM words").fetchall() == [(0,), (1,), (2,), (3,)]
    for task in (first, second, third):
        task.stop()


def test_the_connector_with_boundaries_of_its_own_commits_each_order(registry: PluginRegistry) -> None:
    task = _started(registry, "Orders", {}, {"order": 4})
    batch = _polled(task)
    assert [row["order"] for row in batch.values] == [5, 5, 5]
    assert task.context.asked == ["commit"]  # type: ignore[attr-defined]


def test_the_dataframe_connector_plans_a_split_for_each_file(registry: PluginRegistry, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    connector = registry.find(PluginKind.CONNECTOR, "Parquet")({"input.path": str(tmp_path), "topic": "t"})
    assert isinstance(connector, DataFrameConnector)
    [split] = connector.splits(None)
    assert split.partition["file"].endswith("a.parquet")


def test_names_of_the_connector_how_to_are_exported_to_authors() -> None:
    page = (ROOT / "docs/how-to/write-a-connector.md").read_text()
    inline = " ".join(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL)))
    named = {"at_least", "matches_regex", *re.findall(r"(?<![.\w])[A-Z][a-z]\w+", inline)}
    elsewhere = {
        "Class",
        "Connector",
        "EmbeddedKafka",
        "Path",
        "Enum",
        "Exception",
        "None",
        "True",
        "False",
        "Feed",
        "FeedTask",
        "FeedConnector",
    }  # a placeholder, a suffix, fencepost.embedded, Python, an example
    assert {"Utf8Column", "Type", "SourceTask", "SettingValue"} <= named
    known = {*fencepost.api.__all__, *fencepost.testing.__all__}
    assert sorted(named - elsewhere - known) == []
    assert all(hasattr(fencepost.api, name) for name in fencepost.api.__all__)


def test_python_blocks_compile() -> None:
    assert blocks("python")
    for block in blocks("python"):
        compile(block.text, block.name, "exec")


def _sent() -> list[Sent]:
    found = [Sent(block, json.loads(body), to) for block in blocks("bash") for to, body in _BODY.findall(block.text)]
    documents = [(block, json.loads(block.text)) for block in blocks("json")]
    return found + [Sent(block, body) for block, read in documents for body in read.get("connectors", [read])]


def _are_offsets(sent: Sent) -> bool:
    return "offsets" in sent.body


@pytest.mark.parametrize("sent", [s for s in _sent() if _are_offsets(s)], ids=lambda sent: sent.block.name)
def test_offsets_are_valid(sent: Sent) -> None:
    assert list(sent.body) == ["offsets"]
    assert all(set(entry) == {"partition", "offset"} for entry in sent.body["offsets"])


def _whole(sent: Sent) -> dict[str, str]:
    """Return a config; one that is a part of a config with what its page shows before."""
    config = {"name": "c", **sent.body.get("config", sent.body)}
    if _is_part(config):
        shown = [other for other in _sent() if other.block.page == sent.block.page and other.name == sent.name]
        before = [other.body.get("config", other.body) for other in shown[: shown.index(sent)]]
        whole = [body for body in before if not _is_part(body)]
        config = {**(whole[-1] if whole else {"connector.class": "Counter"}), **config}
    return {key: re.sub(r"\$\{dev:[\w.]+\}", "5433", _LOOKED_UP.get(value, value)) for key, value in config.items()}


def _is_part(config: Mapping[str, str]) -> bool:
    return "connector.class" not in config


def _is_of_java(sent: Sent) -> bool:
    """Say whether a config is one of those that `test_retyped` sends to a worker that has their jars."""
    return sent.block.page == ROOT / "docs/how-to/run-java-connectors.md"


_CONFIGS = [sent for sent in _sent() if not _are_offsets(sent) and not _is_of_java(sent)]


@pytest.mark.parametrize("sent", _CONFIGS, ids=lambda sent: sent.block.name)
def test_configs_are_valid_and_nothing_in_them_looks_like_a_typo(sent: Sent, registry: PluginRegistry) -> None:
    config = _whole(sent)
    report = validate_connector(config, plugins=registry, worker=WorkerConfig(_WORKER))
    warnings = [warning.message for warning in report.warnings]
    assert [text for text in warnings if "it was not checked, as Spark does not run here" not in text] == []
    if _MISTAKE in sent.block.text:
        assert report.error_count == 1
    else:
        require_valid(report)
        known = registry.find(PluginKind.CONNECTOR, config["connector.class"]).settings()
        assert all("." in key or key in {"name", "transforms", "topics", *known} for key in config)


def _is_mirror(block: Block) -> bool:
    return "clusters" in parse_properties(block.text)


@pytest.mark.parametrize("block", [*filter(_is_mirror, blocks("properties"))], ids=lambda block: block.name)
def test_files_of_mirrors_are_valid(block: Block) -> None:
    file = MirrorFile(parse_properties(block.text))
    assert file.unknown_keys() == []
    for flow in file.flows():
        assert WorkerConfig(flow.worker_properties()).warnings() == []


@pytest.mark.parametrize("block", [*filterfalse(_is_mirror, blocks("properties"))], ids=lambda block: block.name)
def test_worker_files_are_valid(block: Block) -> None:
    given = {key: _LOOKED_UP.get(value, value) for key, value in parse_properties(block.text).items()}
    config = WorkerConfig({**_WORKER, **given})
    assert config.unknown_keys() == []
    assert config.warnings() == []
    for kind in ClientKind:
        assert translate(kind, config.internal_client_properties).conf


def test_commands_of_fencepost_exist_with_their_options() -> None:
    found = [match for page in PAGES for match in _COMMAND.findall(page.read_text())]
    assert found
    program: Any = get_command(app)  # making it takes half a second
    command_groups = program.commands.keys()
    for words, options in found:
        command = program
        for word in words.split():
            if not hasattr(command, "commands") or word not in command.commands:
                break
            command = command.commands[word]
        if hasattr(command, "unless_named"):
            command = command.commands[command.unless_named]
        is_named_in_prose = words in command_groups and not options
        assert is_named_in_prose or not hasattr(command, "commands"), words
        known = {option for parameter in command.params for option in parameter.opts}
        given = {word.rstrip("`.'") for word in options.split() if word.startswith("-")}
        assert given <= known, (words, options)


def test_dead_letters_are_shown_as_their_page_shows_them() -> None:
    facts = {"topic": "orders", "partition": "2", "offset": "17", "connector.name": "orders-to-file", "task.id": "0"}
    facts |= {"stage": "VALUE_CONVERTER", "exception.class.name": "fencepost.api.errors.RecordError"}
    facts |= {"exception.message": "Converting byte[] to Kafka Connect data failed"}
    at_ms = int(datetime(2026, 11, 23, 8, 15, tzinfo=UTC).timestamp() * 1000)
    of_record = (TIMESTAMP, b"%d" % (at_ms - 2000))
    headers = (*((f"__connect.errors.{name}", fact.encode()) for name, fact in facts.items()), of_record)
    letter = DeadLetter.of("orders-dead", TopicRecord(0, 0, at_ms, b"17", b'{"order": 17, "total":', headers))
    shown = [*lines(letter, is_sent_again=False), "", summary([letter], "orders-dead", "orders-to-file")]
    assert "\n".join(shown) in (ROOT / "docs/how-to/dead-letters.md").read_text()


def test_settings_that_have_no_effect_are_all_named() -> None:
    text = (ROOT / "docs/how-to/operate.md").read_text().partition("## Settings that have no effect yet")[2]
    named = set(re.findall(r"`([a-z.]+\.[a-z.]+)`", text.partition("So are")[0]))
    assert named == {key for key, declared in WorkerConfig.settings().items() if declared.without_effect}


def test_invariants_and_decisions_are_numbered_without_a_gap() -> None:
    """The invariants and decisions are numbered without a gap."""
    numbers = [int(n) for n in re.findall(r"^\*\*E(\d+)\*\*", (ROOT / "docs/invariants.md").read_text(), re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    decisions = sorted(int(page.name[:4]) for page in (ROOT / "docs/decisions").glob("0*.md"))
    assert all(b - a == 1 for a, b in pairwise(decisions))


def test_the_replication_policy_of_the_page_names_topics_there_and_back(registry: PluginRegistry) -> None:
    policy = registry.find(PluginKind.REPLICATION_POLICY, "suffixpolicy.SuffixPolicy")({})
    assert policy.format_remote_topic("west", "orders") == "orders_from_west"
    assert (policy.topic_source("orders_from_west"), policy.original_topic("orders_from_west")) == ("west", "orders")
    assert policy.topic_source("orders") is None


def test_the_stream_has_fifteen_lines_and_passes_long_words_on(registry: PluginRegistry) -> None:
    text = _python("docs/how-to/write-a-stream-task.md", "LongWordsTask")
    assert len([line for line in text.splitlines() if line.strip()]) <= 15
    connector = registry.find(PluginKind.CONNECTOR, "LongWords")
    task = connector.task()
    task.initialize(Context(), connector({"topics": "words", "target": "long", "letters": "4"}))
    words = [
        SinkRecord("words", 0, n, word, key=n)
        for n, word in enumerate(({"word": "one"}, {"word": "three"}, {"word": "seven"}))
    ]
    rows = list(task.process(SinkBatch.of_records(words)))
    assert [(r.topic, r.key, r.value) for r in rows] == [("long", 1, "THREE"), ("long", 2, "SEVEN")]
