"""The registry: by which names a plug-in is found, and what is said when it is not."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fencepost import __version__
from fencepost import plugin as own_plugins
from fencepost.api import (
    ConfigError,
    ConfigProvider,
    Connector,
    Converter,
    HeaderConverter,
    Predicate,
    ReplicationPolicy,
    Transform,
)
from fencepost.plugin import PluginKind, PluginRegistry, PluginVersionError
from fencepost.plugin.kind import BUILT_IN, FORMER_NAMES
from fencepost.task.channel.task_spec import LimitSpec, LookUpSpec, TaskSpec
from fencepost.task.conversion.plugins import connector_class

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
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
def test_built_in_is_found_by_each_of_its_names(name: str) -> None:
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
        "fencepost.connector.sql_stream.SqlStream",
        "fencepost.connector.topic_sql.TopicSql",
        "fencepost.connector.topic_transform.TopicTransformConnector",
        "fencepost.builtin.mirror.heartbeat.MirrorHeartbeatConnector",
    ],
)
def test_a_built_in_keeps_the_full_name_that_configs_contain(name: str) -> None:
    assert PluginRegistry().find(PluginKind.CONNECTOR, name).__name__ == name.rpartition(".")[2]


@pytest.mark.parametrize("kind", list(PluginKind))
def test_every_built_in_can_be_loaded_by_its_name(kind: PluginKind) -> None:
    bases = {
        PluginKind.CONNECTOR: Connector,
        PluginKind.TRANSFORM: Transform,
        PluginKind.PREDICATE: Predicate,
        PluginKind.CONVERTER: Converter,
        PluginKind.HEADER_CONVERTER: HeaderConverter,
        PluginKind.REPLICATION_POLICY: ReplicationPolicy,
        PluginKind.CONFIG_PROVIDER: ConfigProvider,
    }
    registry = PluginRegistry()
    for name in BUILT_IN[kind]:
        cls = registry.find(kind, name)
        assert issubclass(cls, bases[kind])
        assert registry.name_of(kind, cls) == name


def test_inner_classes_are_found_by_javas_spelling() -> None:
    registry = PluginRegistry()
    by_full_name = registry.find("transform", "org.apache.kafka.connect.transforms.InsertField$Key")
    assert registry.find("transform", "InsertField$Key") is by_full_name


def test_error_for_an_unknown_connector_names_the_list_command() -> None:
    with pytest.raises(ConfigError) as caught:
        PluginRegistry().find(PluginKind.CONNECTOR, "Nothing")
    assert str(caught.value) == (
        "Failed to find any class that implements Connector and which name matches Nothing. "
        "Plug-ins are read when a worker starts: restart it if this one was added or changed since. "
        "`fencepost plugin list` names every connector of a worker: with --url URL if it runs, or with "
        "--properties FILE, its file"
    )


def test_error_for_a_well_known_java_plugin_offers_an_alternative() -> None:
    with pytest.raises(ConfigError, match="use the connector FilesSink, whose path may be an s3a:// path"):
        PluginRegistry().find(PluginKind.CONNECTOR, "io.confluent.connect.s3.S3SinkConnector")


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


def test_broken_plugin_file_is_reported_and_the_others_are_found(tmp_path: Path) -> None:
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


def test_unreadable_plugin_directory_is_reported_and_hides_no_other(
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
    assert looks.count(closed) == 3  # for Python, for Java, and for Java as a plug-in of the other directory
    assert any(f"{closed} cannot be read: Permission denied" in text for text in registry.failures())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import no_such_module", "ModuleNotFoundError"),
        (PANICS, "PanicException: at import"),
    ],
)
def test_broken_entry_point_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    module = f"fp_entry_{len(text)}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    group = PluginKind.CONNECTOR.entry_point_group
    found = EntryPoints([EntryPoint("broken", f"{module}:Thing", group)])
    monkeypatch.setattr(sys.modules[PluginRegistry.__module__], "entry_points", lambda: found)
    registry = PluginRegistry()
    assert registry.find(PluginKind.CONNECTOR, "FileStreamSource")
    assert any(f"{module}:Thing could not be loaded: {said}" in text for text in registry.failures())


def test_ambiguous_alias_of_two_classes_is_refused(tmp_path: Path) -> None:
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
        "heavy = {'fencepost.builtin.converter.json', 'fencepost.builtin.connector.generator'};"
        "heavy |= {'pyspark', 'confluent_kafka', 'pyarrow'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _versions(tmp_path: Path, name: str, *versions: str, package: bool = False) -> PluginRegistry:
    """Make a directory for each version of a plug-in, newest first, and return a registry of all of them."""
    for version in versions:
        directory = tmp_path / version
        directory.mkdir()
        text = PRICES.replace('"7.1"', f'"{version}"')
        if package:
            (directory / name).mkdir()
            (directory / name / "__init__.py").write_text("from .inner import PriceConnector")
            (directory / name / "inner.py").write_text(text)
        else:
            (directory / f"{name}.py").write_text(text)
    return PluginRegistry([str(tmp_path / version) for version in versions])


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        (None, "2.10"),
        ("latest", "2.10"),
        ("2.9", "2.9"),
        ("[2.9]", "2.9"),
        ("[1,2)", "1.0"),
        ("(,2.10)", "2.9"),
        ("[1,1.5],[2.9,2.10)", "2.9"),
    ],
)
def test_the_newest_version_that_is_allowed_is_found(tmp_path: Path, wanted: str | None, version: str) -> None:
    module = f"fp_versioned_{tmp_path.name}".replace("-", "_")
    registry = _versions(tmp_path, module, "2.9", "1.0", "2.10")
    found = registry.find(PluginKind.CONNECTOR, "Price", wanted)
    assert found.version == version
    assert registry.find(PluginKind.CONNECTOR, f"{module}.PriceConnector", wanted) is found
    assert registry.name_of(PluginKind.CONNECTOR, found) == f"{module}.PriceConnector"
    assert registry.version_of(PluginKind.CONNECTOR, found) == version


def test_all_versions_are_listed_under_one_name(tmp_path: Path) -> None:
    registry = _versions(tmp_path, "fp_listed", "10.1", "9.2")
    listed = [(d.type, d.version) for d in registry.all_plugins() if d.class_name == "fp_listed.PriceConnector"]
    assert listed == [("source", "9.2"), ("source", "10.1")]
    assert registry.versions(PluginKind.CONNECTOR, "Price") == ("9.2", "10.1")
    assert registry.versions(PluginKind.CONNECTOR, "Nothing") == ()
    assert registry.names(PluginKind.CONNECTOR).count("fp_listed.PriceConnector") == 1


def test_uninstalled_version_is_refused_with_the_installed_ones(tmp_path: Path) -> None:
    registry = _versions(tmp_path, "fp_refused", "1.0", "2.0")
    with pytest.raises(PluginVersionError) as caught:
        registry.find(PluginKind.CONNECTOR, "Price", "[3,)")
    assert str(caught.value).startswith(
        "Plugin fp_refused.PriceConnector not found that matches the version range [3,), available versions: [1.0, 2.0]"
    )


def test_a_built_in_has_the_version_of_fencepost() -> None:
    registry = PluginRegistry()
    found = registry.find(PluginKind.TRANSFORM, "RegexRouter", f"[{__version__}]")
    assert registry.versions(PluginKind.TRANSFORM, "RegexRouter") == (__version__,)
    assert registry.version_of(PluginKind.TRANSFORM, found) == __version__
    with pytest.raises(PluginVersionError, match=rf"available versions: \[{re.escape(__version__)}\]"):
        registry.find(PluginKind.TRANSFORM, "RegexRouter", "4.3.1")


def test_a_plug_in_without_a_version_is_found_unless_one_is_required(tmp_path: Path) -> None:
    (tmp_path / "fp_undefined.py").write_text(PRICES)
    registry = PluginRegistry([str(tmp_path)])
    assert registry.find(PluginKind.TRANSFORM, "fp_undefined.Upper", "latest")
    with pytest.raises(PluginVersionError, match=r"available versions: \[undefined\]"):
        registry.find(PluginKind.TRANSFORM, "fp_undefined.Upper", "1.0")


def test_packages_of_one_name_with_relative_imports_are_separate_versions(tmp_path: Path) -> None:
    registry = _versions(tmp_path, "fp_package_versions", "1.0", "2.0", package=True)
    full = "fp_package_versions.inner.PriceConnector"
    assert [registry.find(PluginKind.CONNECTOR, full, wanted).version for wanted in ("1.0", "2.0")] == ["1.0", "2.0"]
    assert registry.failures() == ()


def test_absolute_import_of_another_version_is_reported(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        package = tmp_path / version / "fp_absolute"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from fp_absolute.inner import PriceConnector")
        (package / "inner.py").write_text(PRICES.replace('"7.1"', f'"{version}"'))
    registry = PluginRegistry([str(tmp_path / version) for version in ("1.0", "2.0")])
    assert registry.versions(PluginKind.CONNECTOR, "Price") == ("1.0",)
    assert any("import it relatively" in text and "2.0" in text for text in registry.failures())


def test_duplicate_version_is_reported_and_the_first_is_used(tmp_path: Path) -> None:
    for directory in ("a", "b"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "fp_twice.py").write_text(PRICES)
    registry = PluginRegistry([str(tmp_path / "a"), str(tmp_path / "b")])
    found = registry.find(PluginKind.CONNECTOR, "Price")
    assert Path(sys.modules[found.__module__].__file__ or "").parent.name == "a"
    assert any("fp_twice.PriceConnector" in text and "the same version, 7.1" in text for text in registry.failures())


def test_an_entry_point_has_the_version_of_its_package_unless_its_class_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fp_distributed.py").write_text(PRICES)
    monkeypatch.syspath_prepend(str(tmp_path))

    class Package:
        version = "3.4"

    names = {"fencepost.connectors": "PriceConnector", "fencepost.transforms": "Upper"}
    found = EntryPoints(EntryPoint("one", f"fp_distributed:{name}", group) for group, name in names.items())
    for entry in found:
        vars(entry).update(dist=Package())
    monkeypatch.setattr(sys.modules[PluginRegistry.__module__], "entry_points", lambda: found)
    registry = PluginRegistry()
    assert registry.versions(PluginKind.CONNECTOR, "Price") == ("7.1",)
    assert registry.versions(PluginKind.TRANSFORM, "Upper") == ("3.4",)


@pytest.mark.parametrize("name", ["FileStreamSource", "FileStreamSourceConnector", FILE_SOURCE])
def test_class_is_neither_found_nor_listed_when_it_is_disabled(name: str) -> None:
    registry = PluginRegistry(disabled=["FileStreamSink", name])
    for asked in ("FileStreamSource", "FileStreamSourceConnector", FILE_SOURCE):
        with pytest.raises(ConfigError, match=r"plugin\.disabled"):
            registry.find(PluginKind.CONNECTOR, asked)
    assert FILE_SOURCE not in registry.names(PluginKind.CONNECTOR)
    assert FILE_SOURCE not in [one.class_name for one in registry.all_plugins()]
    assert registry.find(PluginKind.CONNECTOR, "VerifiableSource").__name__ == "VerifiableSourceConnector"


def test_slot_refuses_a_class_when_the_worker_has_disabled_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_plugins, "_registry", PluginRegistry())
    given = {"connector.class": "FileStreamSource"}
    limits = LimitSpec(disabled_plugins=("FileStreamSource",))
    with pytest.raises(ConfigError, match=r"plugin\.disabled"):
        connector_class(TaskSpec("c", 0, 1, "i", given, given, look_up=LookUpSpec(limits=limits)))
