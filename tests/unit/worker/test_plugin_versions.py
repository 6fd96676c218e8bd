"""What a config asks for by version is what is validated, planned and run (KIP-891)."""

import pytest

from fencepost import plugin as own_plugins
from fencepost.builtin.transform.chain import Chain
from fencepost.cluster.info import ConnectorType, KeyReport, ValidationReport
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.conversion.plugins import ChainConfig, config_of, connector_of, converter_of
from fencepost.worker.operation.connector.answer import masked
from fencepost.worker.operation.plugin import Plugins
from fencepost.worker.plan import class_of, type_of, version_of
from fencepost.worker.validation.validation import validate_connector
from support.settings import SETTINGS

TEXT = """
from fencepost.api import Converter, SinkConnector, SinkTask, SourceConnector, SourceTask, Transform, setting

class FeedTask(SourceTask):
    version = "{version}"
    def poll(self):
        return None

class FeedConnector(SourceConnector):
    task = FeedTask
    version = "{version}"
    since_{name}: str = setting("since.{version}", default="x")

class Mark(Transform):
    version = "{version}"
    mark: str = setting("mark.{version}", default="")
    def apply(self, record):
        return record.replace(value="{version}")

class Text(Converter):
    version = "{version}"
    def from_connect_data(self, topic, schema, value):
        return b"{version}"
    def to_connect_data(self, topic, data):
        return None, "{version}"
"""
NEWEST, OLDEST = "2.0", "1.0"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> PluginRegistry:
    directories = []
    for version in (OLDEST, NEWEST):
        directory = tmp_path_factory.mktemp("plugins")
        (directory / "fp_feed.py").write_text(TEXT.format(version=version, name=version.replace(".", "_")))
        directories.append(str(directory))
    return PluginRegistry(directories)


@pytest.fixture(autouse=True)
def used(registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_plugins, "_registry", registry)


def validate(**more: str) -> ValidationReport:
    config = {"name": "c", "connector.class": "Feed", **{k.replace("__", "."): v for k, v in more.items()}}
    return validate_connector(config, plugins=own_plugins.registry(), worker=WorkerConfig(SETTINGS))


def reports(report: ValidationReport) -> dict[str, KeyReport]:
    return {one.value.name: one for one in report.configs}


def errors(report: ValidationReport) -> dict[str, list[str]]:
    return {one.value.name: list(one.value.errors) for one in report.configs if one.value.errors}


@pytest.mark.parametrize(("wanted", "version"), [(None, NEWEST), ("latest", NEWEST), ("[1,2)", OLDEST)])
def test_a_connector_is_planned_and_run_in_the_version_that_its_config_asks_for(
    wanted: str | None, version: str
) -> None:
    config = {"name": "c", "connector.class": "Feed", "connector.plugin.version": wanted}
    spec = TaskSpec("c", 0, 1, "i", config, {})
    assert class_of(config).version == version
    assert version_of(config) == version
    assert config_of(spec).version == version
    assert connector_of(spec)[1].version == version


def test_connector_of_a_missing_version_has_unknown_type_and_hidden_passwords() -> None:
    config = {"name": "c", "connector.class": "FileStreamSource", "connector.plugin.version": "99", "my.password": "p"}
    assert type_of(ClusterSnapshot(connectors={"c": config}), "c") is ConnectorType.UNKNOWN
    assert version_of(config) is None
    assert masked(config)["my.password"] == "[hidden]"


def test_transforms_and_converters_run_in_the_versions_that_a_config_asks_for() -> None:
    config = {"transforms": "old,new", "transforms.old.type": "Mark", "transforms.new.type": "Mark"}
    made = Chain.from_config(config | {"transforms.old.plugin.version": "[1.0]"}, own_plugins.find)
    assert [link.transform.version for link in made.links] == [OLDEST, NEWEST]  # type: ignore[attr-defined]
    properties = {"key.converter": "Text", "key.converter.plugin.version": "1.0", "value.converter": "Text"}
    chain = ChainConfig(properties, own_plugins.find)
    converters = [converter_of(chain, f"{side}.converter") for side in ("key", "value")]
    assert [one.version for one in converters] == [OLDEST, NEWEST]
    assert "plugin.version" not in converters[0].originals


def test_validation_has_the_keys_of_the_version_and_recommends_installed_ones() -> None:
    found = reports(validate(connector__plugin__version="1.0"))
    assert "since.1.0" in found
    assert "since.2.0" not in found
    version = found["connector.plugin.version"]
    assert version.definition is not None
    assert (version.definition.default_value, version.value.value) == (NEWEST, "1.0")
    assert version.value.recommended_values == (OLDEST, NEWEST)


def test_missing_version_of_a_connector_is_refused_with_the_installed_ones() -> None:
    report = validate(connector__plugin__version="[3,)")
    said = errors(report)
    assert list(said) == ["connector.class", "connector.plugin.version"]
    assert "available versions: [1.0, 2.0]" in said["connector.plugin.version"][0]
    assert reports(report)["connector.plugin.version"].value.recommended_values == (OLDEST, NEWEST)


@pytest.mark.parametrize(
    ("keys", "faulty"),
    [
        (
            {"transforms": "t", "transforms.t.type": "Mark", "transforms.t.plugin.version": "[3,)"},
            ["transforms.t.type", "transforms.t.plugin.version"],
        ),
        (
            {"value.converter": "Text", "value.converter.plugin.version": "[3,)"},
            ["value.converter", "value.converter.plugin.version"],
        ),
    ],
)
def test_missing_version_of_a_transform_or_converter_is_refused(keys: dict[str, str], faulty: list[str]) -> None:
    said = errors(validate(**keys))
    assert sorted(said) == sorted(faulty)
    assert all("available versions: [1.0, 2.0]" in text for texts in said.values() for text in texts)


def test_version_is_checked_for_a_converter_that_the_workers_file_names() -> None:
    said = errors(validate(key__converter__plugin__version="99"))
    assert list(said) == ["key.converter.plugin.version"]
    assert "StringConverter" in said["key.converter.plugin.version"][0]


@pytest.mark.parametrize("key", ["key.converter.plugin.version", "transforms.t.plugin.version"])
def test_invalid_version_is_refused_with_its_key(key: str) -> None:
    transform = {"transforms": "t", "transforms.t.type": "Mark", "key.converter": "Text"}
    said = errors(validate(**transform, **{key: "[1"}))
    assert list(said) == [key]
    assert said[key][0].startswith(f"Invalid value [1 for configuration {key}: Unbounded range")


def test_the_keys_of_a_plug_in_are_those_of_the_version_that_is_asked_for() -> None:
    plugins = Plugins(WorkerConfig(SETTINGS))
    keys = {version: [one.name for one in plugins.keys("Mark", version)] for version in (None, "1.0", "[2,)")}
    assert keys == {None: ["mark.2.0"], "1.0": ["mark.1.0"], "[2,)": ["mark.2.0"]}
    default = {one.name: one.default_value for one in plugins.keys("Feed")}["connector.plugin.version"]
    assert default == NEWEST
