"""`fencepost plan`: what is shown of records, and which sources are not started."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fencepost.api import (
    ConfigError,
    ConnectError,
    FatalError,
    Record,
    Schema,
    SourceRecord,
    Transform,
    UnavailableError,
)
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.builtin.converter.registry.avro.converter import AvroConverter
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.cli.file.record_plan import Pipeline, ensure_startable, polled
from fencepost.cli.main import app
from fencepost.config import connector_limit
from fencepost.config.connector_limit import FileLimit
from fencepost.kafka.read.browse import TopicRecord
from fencepost.plugin import find, registry, use_registry
from fencepost.record.schema import INT32
from support.command_line import fencepost
from support.memory_registry import MemoryRegistry, with_registry
from support.settings import SETTINGS

_PLUGIN = """
from fencepost.api import SourceConnector, SourceTask, SourceRecord

class TideTask(SourceTask):
    def start(self):
        self.n = self.context.offset({"gauge": 1}).get("n", 0)

    def poll(self):
        self.n += 1
        return [SourceRecord({"gauge": 1}, {"n": self.n}, "tides", {"height": self.n})]

    def commit(self):
        raise AssertionError("nothing is committed")

class TideConnector(SourceConnector):
    task = TideTask
"""
_JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_RENAME = {
    "transforms": "rename,drop",
    "transforms.rename.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.rename.renames": "height:h",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.drop.regex": "tides",
    "transforms.drop.replacement": "levels",
}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    before = registry()
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/tide_plugin.py").write_text(_PLUGIN)
    monkeypatch.setattr("fencepost.cli.file.record_plan._ASK_S", 0.1)
    yield tmp_path / "plugins"
    use_registry(before)


def test_plan_polls_a_source_and_shows_records_before_and_after_transforms(plugins: Path) -> None:
    file = plugins.parent / "tide.json"
    file.write_text(json.dumps({"name": "tide", "config": {"connector.class": "Tide", **_JSON, **_RENAME}}))
    words = ["plan", str(file), "--plugin-path", str(plugins), "--bootstrap", "127.0.0.1:1", "-n", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exception is None, done.output
    *lines, rights = done.output.splitlines()
    assert lines == [
        "1  {'gauge': 1} at {'n': 1}",
        '  before   topic tides  key null  value {"height":1}',
        '  after    topic levels  key null  value {"h":1}',
        '  written  key null  value {"h":1}',
        "2  {'gauge': 1} at {'n': 2}",
        '  before   topic tides  key null  value {"height":2}',
        '  after    topic levels  key null  value {"h":2}',
        '  written  key null  value {"h":2}',
        "2 records: 0 would be filtered, 0 would fail",
    ]
    assert rights.startswith("Rights are not checked: ")


def test_plan_shows_a_sink_record_as_its_task_would_get_it() -> None:
    pipeline = Pipeline({**_JSON, **_RENAME, "header.converter": "SimpleHeaderConverter"}, find)
    record = TopicRecord(0, 7, 1_000, b"k", b'{"height":3}', (("h", b"x"),))
    assert list(pipeline.of_sink(("tides", record)).lines(1)) == [
        "1  tides-0@7",
        '  before   topic tides  key "k"  value {"height":3}',
        '           header h "x"',
        '  after    topic levels  key "k"  value {"h":3}',
        '           header h "x"',
    ]


def test_plan_shows_the_reason_that_a_record_would_fail() -> None:
    pipeline = Pipeline({**_JSON, "header.converter": "SimpleHeaderConverter"}, find)
    place, fault = pipeline.of_sink(("t", TopicRecord(0, 7, 1_000, None, b"no json"))).lines(1)
    assert (place, fault[:11]) == ("1  t-0@7", "  fails    ")


def test_plan_registers_no_schema_with_a_schema_registry() -> None:
    registry = MemoryRegistry()
    pipeline = Pipeline({**_JSON, "header.converter": "SimpleHeaderConverter"}, find)
    pipeline._value = with_registry(AvroConverter, registry)
    record = SourceRecord({}, {}, "tides", {"height": 3}, Schema.struct({"height": INT32}))
    *_, written = pipeline.of_source(record).lines(1)
    assert written == "  written  (not shown: AvroConverter would register a schema of the value)"
    assert not registry.asked


@pytest.mark.parametrize("error", [KeyError("height"), FatalError("no height"), UnavailableError("no height")])
def test_plan_fails_only_the_record_that_a_transform_raises_on(error: Exception) -> None:
    class Strict(Transform):
        def apply(self, record: Record) -> Record | None:
            raise error

    pipeline = Pipeline({**_JSON, "header.converter": "SimpleHeaderConverter"}, find)
    pipeline._chain = Chain([Link("strict", Strict({}))])
    seen = pipeline.of_source(SourceRecord({}, {}, "tides", {"depth": 3}))
    assert seen.fault == (str(error) if isinstance(error, ConnectError) else f"KeyError: {error}")
    assert pipeline.of_sink(("tides", TopicRecord(0, 7, 1_000, None, b"{}"))).fault == seen.fault


def test_plan_hides_config_secrets_in_an_error_of_a_source(plugins: Path) -> None:
    (plugins / "ebb_plugin.py").write_text(
        _PLUGIN.replace("Tide", "Ebb").replace("self.n += 1", 'raise OSError("login as hunter22")')
    )
    file = plugins.parent / "ebb.json"
    file.write_text(json.dumps({"name": "ebb", "config": {"connector.class": "Ebb", "db.password": "hunter22"}}))
    ran = fencepost("plan", file, "--plugin-path", plugins, "--bootstrap", "127.0.0.1:1")
    assert (ran.code, ran.err) == (1, "EbbConnector failed: OSError: login as [hidden]\n")


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"connector.class": "FileStreamSource", "file": "/etc/passwd", "topic": "t"}, "configuration file: "),
        ({"connector.class": "FileStreamSource", "file": "FILE", "topic": "t"}, "configuration file: "),
        (
            {"connector.class": "FileStreamSink", "file": "ALLOWED", "topics": "connect-configs"},
            "the workers' or Kafka",
        ),
    ],
    ids=["file that is not allowed", "the worker's file", "topic of the workers"],
)
def test_plan_refuses_files_that_workers_refuse_to_connectors(
    plugins: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, str], refused: str
) -> None:
    monkeypatch.setattr(connector_limit, "_limit", FileLimit())
    worker, allowed = plugins.parent / "limiting.properties", plugins.parent / "allowed"
    given = {**SETTINGS, "bootstrap.servers": "127.0.0.1:1", "connector.file.allowed.paths": str(plugins.parent)}
    worker.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    places = {"FILE": str(worker), "ALLOWED": str(allowed)}
    named = plugins.parent / "limited.json"
    named.write_text(json.dumps({"name": "c", "config": {k: places.get(v, v) for k, v in config.items()}}))
    ran = fencepost("plan", named, "--properties", worker)
    assert (ran.code, ran.out) == (1, "")
    assert refused in ran.err


class Java(type):
    """As the class of a Java connector: its settings have to be asked for."""

    def known_settings(cls, *, asks: bool = True) -> None: ...


class DebeziumLike(metaclass=Java):
    @staticmethod
    def task() -> None:
        raise AssertionError("it is started")


@pytest.mark.parametrize(
    ("connector", "reason"),
    [
        (DebeziumLike, "DebeziumLike is a Java class, and is not started for a plan"),
        (SpoolDirectorySource, "SpoolDirectorySource is read by Spark, in a worker"),
        (MirrorSourceConnector, "is not started for a plan"),
    ],
)
def test_plan_does_not_start_sources_that_may_change_outside_systems(connector: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ensure_startable(connector)


def test_plan_gives_up_on_a_source_that_polls_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from fencepost.api import FatalError, SourceConnector, SourceTask

    gate = threading.Event()

    class Stuck(SourceTask):
        def poll(self) -> None:
            gate.wait(60)

    class StuckConnector(SourceConnector):
        task = Stuck

    monkeypatch.setattr("fencepost.cli.file.record_plan._LONGEST_S", 0.05)
    with pytest.raises(FatalError, match="StuckConnector did not poll 1 record within"):
        polled(StuckConnector, {}, 1)
    gate.set()
