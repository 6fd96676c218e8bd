"""The registry: by which names a plug-in is found, and what is said when it is not."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fencepost.api import ConfigError, Connector, Converter, HeaderConverter, Predicate, ReplicationPolicy, Transform
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.plugin.builtin import BUILT_IN, FORMER_NAMES

PANICS = """
class PanicException(BaseException): ...
raise PanicException("at import")
"""
PRICES = """
from fencepost.api import SourceConnector, SourceTask, SourceRecord, Transform

class PriceTask(SourceTask):
    def poll(self):
        return None

class PriceConnector(SourceConnector):
    task = PriceTask
    version = "7.1"

class Upper(Transform):
    def apply(self, record: SourceRecord):
        return record
"""


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        "fencepost.connector.file_stream.FileStreamSourceConnector",
    ],
)
def test_a_built_in_answers_to_its_names(name: str) -> None:
    assert PluginRegistry().find(PluginKind.CONNECTOR, name).__name__ == "FileStreamSourceConnector"


@pytest.mark.parametrize("name", FORMER_NAMES)
def test_a_built_in_is_found_by_its_python_name_when_its_module_has_moved(name: str) -> None:
    kind = PluginKind.REPLICATION_POLICY if name.endswith("Policy") else PluginKind.CONNECTOR
    assert PluginRegistry().find(kind, name).__name__ == name.rpartition(".")[2]


@pytest.mark.parametrize(
    "name",
    [
        "fencepost.connector.datagen.DatagenConnector",
        "fencepost.connector.files_sink.FilesSink",
        "fencepost.connector.spool.SpoolDirectorySource",
        "fencepost.connector.topic_sql.TopicSql",
        "fencepost.connector.topic_transform.TopicTransformConnector",
        "fencepost.mirror.heartbeat.MirrorHeartbeatConnector",
    ],
)
def test_a_built_in_keeps_the_full_name_that_configs_contain(name: str) -> None:
    assert PluginRegistry().find(PluginKind.CONNECTOR, name).__name__ == name.rpartition(".")[2]


@pytest.mark.parametrize("kind", list(PluginKind))
def test_every_built_in_is_there(kind: PluginKind) -> None:
    bases = {
        PluginKind.CONNECTOR: Connector,
        PluginKind.TRANSFORM: Transform,
        PluginKind.PREDICATE: Predicate,
        PluginKind.CONVERTER: Converter,
        PluginKind.HEADER_CONVERTER: HeaderConverter,
        PluginKind.REPLICATION_POLICY: ReplicationPolicy,
    }
    registry = PluginRegistry()
    for name in BUILT_IN[kind]:
        cls = registry.find(kind, name)
        assert issubclass(cls, bases[kind])
        assert registry.name_of(kind, cls) == name


def test_inner_classes_answer_to_javas_spelling() -> None:
    registry = PluginRegistry()
    by_full_name = registry.find("transform", "org.apache.kafka.connect.transforms.InsertField$Key")
    assert registry.find("transform", "InsertField$Key") is by_full_name


def test_an_unknown_connector_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        PluginRegistry().find(PluginKind.CONNECTOR, "com.example.Nothing")
    assert str(caught.value).startswith(
        "Failed to find any class that implements Connector and which name matches com.example.Nothing, "
        "available connectors are: "
    )
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("io.debezium.connector.postgresql.PostgresConnector", "SourceConnector of your own"),
        ("io.confluent.connect.jdbc.JdbcSourceConnector", "DataFrameConnector"),
        ("io.confluent.connect.s3.source.S3SourceConnector", "DataFrameConnector"),
        ("io.confluent.connect.hdfs3.Hdfs3SourceConnector", "DataFrameConnector"),
        ("com.mongodb.kafka.connect.MongoSourceConnector", "SourceConnector of your own"),
        ("com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector", "SpoolDirectory"),
        ("io.confluent.kafka.connect.datagen.DatagenConnector", "the connector Datagen"),
        ("io.example.QueueSinkConnector", "SinkConnector of your own"),
    ],
)
def test_a_well_known_java_plug_in_is_answered_with_an_offer(name: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=instead):
        PluginRegistry().find(PluginKind.CONNECTOR, name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("io.confluent.connect.s3.S3SinkConnector", "FilesSink"),
        ("io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector", "FilesSink"),
        ("io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector", "FilesSink"),
        ("org.apache.camel.kafkaconnector.awss3sink.CamelAwss3sinkSinkConnector", "FilesSink"),
        ("io.confluent.connect.gcs.GcsSinkConnector", "FilesSink"),
        ("io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector", "FilesSink"),
        ("io.confluent.connect.hdfs3.Hdfs3SinkConnector", "FilesSink"),
        ("io.confluent.connect.jdbc.JdbcSinkConnector", "SinkConnector of your own"),
        ("io.debezium.connector.jdbc.JdbcSinkConnector", "SinkConnector of your own"),
        ("io.aiven.connect.jdbc.JdbcSinkConnector", "SinkConnector of your own"),
        ("com.mongodb.kafka.connect.MongoSinkConnector", "SinkConnector of your own"),
        ("io.debezium.connector.mongodb.MongoDbSinkConnector", "SinkConnector of your own"),
        ("org.apache.iceberg.connect.IcebergSinkConnector", "DataFrameSink of your own"),
        ("com.snowflake.kafka.connector.SnowflakeSinkConnector", "DataFrameSink of your own"),
    ],
)
def test_a_java_sink_is_answered_with_a_sink(name: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=instead) as caught:
        PluginRegistry().find(PluginKind.CONNECTOR, name)
    offer = str(caught.value).rpartition("use ")[2]
    assert "session.read" not in offer
    assert "SourceConnector" not in offer


@pytest.mark.parametrize(
    ("kind", "name", "instead"),
    [
        (PluginKind.TRANSFORM, "io.debezium.transforms.ExtractNewRecordState", "Transform of your own"),
        (PluginKind.TRANSFORM, "io.confluent.connect.transforms.MessageTimestampRouter", "Transform of your own"),
        (PluginKind.PREDICATE, "io.debezium.predicates.Anything", "Predicate of your own"),
        (PluginKind.CONVERTER, "io.confluent.connect.avro.AvroConverter", "JsonConverter with schemas.enable=true"),
        (PluginKind.CONVERTER, "io.debezium.converters.BinaryDataConverter", "Converter of your own"),
        (PluginKind.HEADER_CONVERTER, "com.example.mongo.Headers", "HeaderConverter of your own"),
    ],
)
def test_the_offer_for_a_java_plug_in_is_of_its_kind(kind: PluginKind, name: str, instead: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PluginRegistry().find(kind, name)
    assert instead in str(caught.value)
    assert "SourceConnector" not in str(caught.value)


def test_names_from_a_config_are_never_imported() -> None:
    with pytest.raises(ConfigError):
        PluginRegistry().find(PluginKind.CONNECTOR, "antigravity.Anything")
    assert "antigravity" not in sys.modules


def test_files_on_the_plugin_path_are_found_by_class_name(tmp_path: Path) -> None:
    (tmp_path / "fp_prices.py").write_text(PRICES)
    package = tmp_path / "fp_package"
    package.mkdir()
    (package / "__init__.py").write_text("from fp_package.inner import Inner")
    (package / "inner.py").write_text("from fencepost.api import Predicate\nclass Inner(Predicate): ...")
    registry = PluginRegistry([str(tmp_path)])
    connector = registry.find(PluginKind.CONNECTOR, "Price")
    assert connector is registry.find(PluginKind.CONNECTOR, "fp_prices.PriceConnector")
    assert connector.__module__ == "fp_prices"
    assert registry.find(PluginKind.TRANSFORM, "Upper").__name__ == "Upper"
    assert registry.find(PluginKind.PREDICATE, "Inner").__name__ == "Inner"
    described = {d.class_name: d for d in registry.all_plugins()}["fp_prices.PriceConnector"]
    assert (described.type, described.version) == ("source", "7.1")
    assert PluginRegistry([str(tmp_path)]).find(PluginKind.CONNECTOR, "Price") is connector


def test_a_file_that_cannot_be_loaded_is_told_and_the_others_are_found(tmp_path: Path) -> None:
    (tmp_path / "fp_broken.py").write_text("import no_such_module")
    (tmp_path / "fp_ends.py").write_text("import sys\nsys.exit(3)")
    (tmp_path / "fp_panics.py").write_text(PANICS)
    (tmp_path / "json.py").write_text("")
    (tmp_path / "fp_good.py").write_text(PRICES)
    registry = PluginRegistry([str(tmp_path), str(tmp_path / "missing")])
    assert registry.find(PluginKind.CONNECTOR, "PriceConnector").__module__ == "fp_good"
    with pytest.raises(ConfigError, match=r"fp_broken\.py could not be loaded: ModuleNotFoundError"):
        registry.find(PluginKind.CONNECTOR, "Other")
    assert any("fp_ends.py could not be loaded: SystemExit: 3" in text for text in registry.failures())
    assert any("fp_panics.py could not be loaded: PanicException: at import" in text for text in registry.failures())
    assert any("json.py" in text for text in registry.failures())
    assert any("missing is not a directory" in text for text in registry.failures())


def test_a_directory_without_rights_is_told_looked_at_once_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a connector of DataFrames asks each second."""
    closed, looks, listed = tmp_path / "closed", [], Path.iterdir
    closed.mkdir()
    (tmp_path / "fp_open.py").write_text(PRICES)

    def iterdir(path: Path) -> Iterator[Path]:
        looks.append(path)
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    registry = PluginRegistry([str(closed), str(tmp_path)])
    for _ in range(3):
        assert registry.find(PluginKind.CONNECTOR, "fp_open.PriceConnector")
    assert looks.count(closed) == 1
    assert any(f"{closed} cannot be read: Permission denied" in text for text in registry.failures())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import no_such_module", "ModuleNotFoundError"),
        (PANICS, "PanicException: at import"),
    ],
)
def test_an_entry_point_that_cannot_be_loaded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    module = f"fp_entry_{len(text)}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    group = PluginKind.CONNECTOR.entry_point_group
    found = {group: [EntryPoint("broken", f"{module}:Thing", group)]}
    monkeypatch.setattr(sys.modules[PluginRegistry.__module__], "entry_points", lambda group: found.get(group, []))
    registry = PluginRegistry()
    assert registry.find(PluginKind.CONNECTOR, "FileStreamSource")
    assert any(f"{module}:Thing could not be loaded: {said}" in text for text in registry.failures())


def test_one_name_for_two_classes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fp_one.py").write_text(PRICES)
    (tmp_path / "fp_two.py").write_text(PRICES)
    registry = PluginRegistry([str(tmp_path)])
    with pytest.raises(ConfigError, match=r"More than one connector matches alias Price\..*fp_one.*fp_two"):
        registry.find(PluginKind.CONNECTOR, "Price")
    assert registry.find(PluginKind.CONNECTOR, "fp_two.PriceConnector").__module__ == "fp_two"


def test_plugins_are_listed_by_kind_in_kafkas_order() -> None:
    types = [d.type for d in PluginRegistry().all_plugins()]
    assert list(dict.fromkeys(types)) == [
        "sink",
        "source",
        "transformation",
        "predicate",
        "converter",
        "header_converter",
    ]


def test_looking_up_one_built_in_imports_no_other() -> None:
    code = (
        "import sys; from fencepost.plugin import find; find('converter', 'StringConverter');"
        "heavy = {'fencepost.converter.json', 'fencepost.connector.generator.datagen', 'pyspark', 'confluent_kafka'};"
        "heavy.add('pyarrow');"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
