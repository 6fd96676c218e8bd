"""Java plug-ins in the registry: their names, and which side has which class."""

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost import __version__
from fencepost.api import FatalError, SinkConnector, SinkRecord, SourceConnector, Transform
from fencepost.builtin.java import shared_host
from fencepost.builtin.java.error import JavaPluginError
from fencepost.builtin.java.port import JavaClass
from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind, PluginRegistry, PluginVersionError, VersionUnknownError
from fencepost.testing import eventually
from fencepost.worker.plan import is_dataframe_config, type_of_config
from fencepost.worker.plan import version_of as version_of_config
from support.jars import CONVERTER, SINK, SOURCE, TRANSFORM, class_bytes, write_jar
from support.java_host import ScriptedJava, definition
from support.scripted_plugins import PRICES, ScriptedPlugins, plugins_with, used

_KAFKA = "org.apache.kafka.connect."
ROUND = "org.example.Round$Value"
SERVICES = {
    SOURCE: [PRICES, _KAFKA + "file.FileStreamSourceConnector"],
    SINK: ["org.example.TableSinkConnector"],
    TRANSFORM: [ROUND, "io.debezium.transforms.ExtractNewRecordState"],
    CONVERTER: ["org.example.CborConverter"],
}


@pytest.mark.parametrize("name", [PRICES, "PriceSourceConnector", "PriceSource"])
def test_java_connector_is_found_by_its_names_without_a_jvm(tmp_path: Path, name: str) -> None:
    registry = plugins_with(tmp_path)
    found = registry.find(PluginKind.CONNECTOR, name)
    assert issubclass(found, SourceConnector)
    assert registry.name_of(PluginKind.CONNECTOR, found) == PRICES
    assert registry.find(PluginKind.CONNECTOR, PRICES) is found
    assert (found.__name__, registry.machine.hosts) == ("PriceSourceConnector", [])
    assert registry.version_of(PluginKind.CONNECTOR, found) is None


def test_class_of_both_sides_is_pythons_for_python_and_javas_for_java(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    file_source = registry.find(PluginKind.CONNECTOR, "FileStreamSource")
    assert file_source.__module__.startswith("fencepost.")
    java = registry.beside(registry.find(PluginKind.CONNECTOR, PRICES))
    assert registry.beside(file_source) is registry
    for name in ("ExtractNewRecordState", _KAFKA + "transforms.InsertField$Value"):
        ours, theirs = (each.find(PluginKind.TRANSFORM, name) for each in (registry, java))
        assert ours.__module__.startswith("fencepost.")
        assert registry.java is not None
        assert registry.java.class_of(theirs) is not None
        assert issubclass(theirs, Transform)
        assert java.name_of(PluginKind.TRANSFORM, theirs) == registry.name_of(PluginKind.TRANSFORM, ours)


def test_python_only_plugins_are_listed_by_both_registries(tmp_path: Path) -> None:
    for view in plugins_with(tmp_path).views():
        assert all(view.names(kind) for kind in PluginKind)


def test_java_connector_with_a_built_in_name_is_found_by_its_version(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    name = _KAFKA + "file.FileStreamSourceConnector"
    for version in (None, "[0,99)", __version__):
        assert registry.find(PluginKind.CONNECTOR, name, version).__module__.startswith("fencepost.")
    javas = registry.find(PluginKind.CONNECTOR, "FileStreamSource", "7.1")
    assert registry.java is not None
    assert registry.java.class_of(javas) is not None
    assert registry.versions(PluginKind.CONNECTOR, name) == ("7.1", __version__)
    with pytest.raises(ConfigError, match="available versions"):
        registry.find(PluginKind.CONNECTOR, name, "[8]")


def test_copies_of_kafkas_classes_in_a_plugin_are_not_used(tmp_path: Path) -> None:
    copy = _KAFKA + "storage.StringConverter"
    registry = plugins_with(tmp_path, {SOURCE: [PRICES], CONVERTER: [copy]})
    assert registry.java is not None
    assert registry.java.classes({"key.converter": copy})[copy] == JavaClass(copy)
    assert len([one for one in registry.all_plugins() if one.class_name == copy and one.type == "converter"]) == 1


def test_python_connector_can_use_java_only_plugins(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    found = registry.find(PluginKind.TRANSFORM, "Round$Value")
    assert (found.__qualname__, registry.machine.hosts) == ("Round$Value", [])
    assert ROUND in registry.names(PluginKind.TRANSFORM)
    java = registry.beside(registry.find(PluginKind.CONNECTOR, PRICES))
    assert java.find(PluginKind.TRANSFORM, "Round$Value") is found
    assert {ROUND, _KAFKA + "transforms.ValueToKey"} <= set(java.names(PluginKind.TRANSFORM))


def test_java_plugin_called_from_python_raises_an_error(tmp_path: Path) -> None:
    """Its methods are not there: those of the contracts would return None, which is a value."""
    registry = plugins_with(tmp_path, SERVICES)
    converter = registry.find(PluginKind.CONVERTER, "CborConverter")({})
    with pytest.raises(FatalError, match=r"org\.example\.CborConverter is a Java class, which cannot be used here"):
        converter.from_connect_data("t", None, "a")
    transform = registry.find(PluginKind.TRANSFORM, ROUND)({})
    with pytest.raises(FatalError):
        transform.apply(SinkRecord("t", 0, 0))
    transform.close()


@pytest.mark.parametrize(
    ("transforms", "is_source", "hosted", "rest"),
    [
        ("java,python,java2", True, "java", "python,java2"),
        ("java,python,java2", False, "java2", "java,python"),
        ("chosen,java", True, "", "chosen,java"),
        ("java,java2", True, "java,java2", ""),
    ],
)
def test_the_config_of_a_java_connector_is_divided_where_python_begins(
    tmp_path: Path, transforms: str, is_source: bool, hosted: str, rest: str
) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    (tmp_path / "own.py").write_text(
        "from fencepost.api import Predicate, Transform\n"
        "class OwnTransform(Transform):\n    def apply(self, record): return record\n"
        "class OwnPredicate(Predicate):\n    def test(self, record): return True\n"
    )
    config = {
        "transforms": transforms,
        "transforms.java.type": ROUND,
        "transforms.java2.type": "RegexRouter",
        "transforms.python.type": "OwnTransform",
        "transforms.chosen.type": ROUND,
        "transforms.chosen.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "OwnPredicate",
        "value.converter": "fencepost.builtin.converter.plain.IntegerConverter",
    }
    assert registry.java is not None
    divided = registry.java.divide(config, is_source=is_source)
    assert divided is not None
    assert (divided.hosted["transforms"], divided.rest["transforms"]) == (hosted, rest)
    assert divided.rest["value.converter"] == config["value.converter"]
    assert divided.hosted["value.converter"].endswith("ByteArrayConverter")


def test_config_with_only_java_classes_is_not_divided(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    config = {"transforms": "a", "transforms.a.type": ROUND, "value.converter": _KAFKA + "json.JsonConverter"}
    assert registry.java is not None
    assert registry.java.divide(config, is_source=True) is None
    assert registry.java.divide(config | {"value.converter": "org.example.Unknown"}, is_source=True) is None


def test_error_for_an_unknown_java_class_names_the_plugin_path(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path)
    java = registry.beside(registry.find(PluginKind.CONNECTOR, PRICES))
    with pytest.raises(ConfigError, match=r"Install the plug-in of com\.acme\.Upper in plugin\.path"):
        java.find(PluginKind.TRANSFORM, "com.acme.Upper")


def test_a_java_sink_is_found_and_listed(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    assert issubclass(registry.find(PluginKind.CONNECTOR, "TableSink"), SinkConnector)
    assert ("org.example.TableSinkConnector", "sink", "7.1") in registry.all_plugins()


def test_java_plug_ins_are_listed_with_their_versions(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    listed = registry.all_plugins()
    assert (PRICES, "source", "7.1") in listed
    assert (ROUND, "transformation", "7.1") in listed
    assert ("org.example.CborConverter", "converter", "7.1") in listed
    file_sources = [one for one in listed if one.class_name == _KAFKA + "file.FileStreamSourceConnector"]
    assert {one.version for one in file_sources} == {__version__, "7.1"}
    both = [one.version for one in listed if one.class_name == "io.debezium.transforms.ExtractNewRecordState"]
    assert len(both) == 2
    assert len(registry.machine.hosts) == 1
    assert registry.version_of(PluginKind.CONNECTOR, registry.find(PluginKind.CONNECTOR, PRICES)) == "7.1"


def test_a_broken_class_is_reported_and_not_listed(tmp_path: Path) -> None:
    machine = ScriptedJava()

    def version(java_class: JavaClass) -> str:
        if java_class.name == ROUND:
            raise JavaPluginError(f"{ROUND} has no public constructor")
        return "7.1"

    machine.version_of = version
    registry = plugins_with(tmp_path, SERVICES, machine)
    assert ROUND not in [one.class_name for one in registry.all_plugins()]
    assert f"{ROUND} has no public constructor" in registry.failures()
    assert PRICES in [one.class_name for one in registry.all_plugins()]


def test_newest_allowed_of_two_java_versions_is_found(tmp_path: Path) -> None:
    for version in ("2.9", "2.10"):
        write_jar(tmp_path / version / "prices.jar", {SOURCE: [PRICES]})
    machine = ScriptedJava()
    machine.version_of = lambda java_class: Path(java_class.location.path if java_class.location else "").name
    registry = ScriptedPlugins(tmp_path, machine)
    assert registry.java is not None
    newest, older = (registry.find(PluginKind.CONNECTOR, "PriceSource", asked) for asked in (None, "[2,2.10)"))
    paths = [one.location.path for one in map(registry.java.class_of, (newest, older)) if one and one.location]
    assert paths == [str(tmp_path / "2.10"), str(tmp_path / "2.9")]
    assert registry.versions(PluginKind.CONNECTOR, PRICES) == ("2.9", "2.10")
    with pytest.raises(PluginVersionError, match=r"available versions: \[2\.9, 2\.10\]"):
        registry.find(PluginKind.CONNECTOR, PRICES, "3.0")


def test_java_version_is_not_chosen_while_no_host_can_compare_versions(tmp_path: Path) -> None:
    """Or the older one would run, in place of the newest."""
    for version in ("2.9", "2.10"):
        write_jar(tmp_path / version / "prices.jar", {SOURCE: [PRICES], TRANSFORM: [ROUND]})
    machine = ScriptedJava()

    def version_of(java_class: JavaClass) -> str:
        return Path(java_class.location.path if java_class.location else "").name

    def end(java_class: JavaClass) -> str:
        if version_of(java_class) == "2.10":
            machine.hosts[-1].end, machine.hosts[-1].is_killed_by_others = "signal 9 ended it", True
            machine.hosts[-1].ensure_alive()
        return version_of(java_class)

    machine.version_of = end
    registry = ScriptedPlugins(tmp_path, machine)
    config = {"connector.class": PRICES, "transforms": "round", "transforms.round.type": ROUND}
    with pytest.raises(
        VersionUnknownError, match=rf"the version of {PRICES} in .*2\.10 is not known now.*: signal 9 ended"
    ):
        registry.find(PluginKind.CONNECTOR, PRICES)
    assert registry.java is not None
    with pytest.raises(VersionUnknownError, match=r"the version of org\.example\.Round\$Value in .* is not known now"):
        registry.java.classes(config)
    with used(registry):
        assert type_of_config(config) is ConnectorType.SOURCE
        assert version_of_config(config) is None
        assert not is_dataframe_config(config)
    assert registry.versions(PluginKind.CONNECTOR, PRICES) == ()
    assert {one.version for one in registry.all_plugins() if one.class_name == PRICES} == {"2.9", None}
    later = ScriptedPlugins(tmp_path)
    later.machine.version_of = version_of
    assert later.java is not None
    found = later.java.class_of(later.find(PluginKind.CONNECTOR, PRICES))
    assert found is not None
    assert found.location is not None
    assert found.location.path == str(tmp_path / "2.10")


@pytest.mark.parametrize("how", ["hangs", "crashes"])
def test_java_version_that_ends_every_host_hides_no_other_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for version in ("2.9", "2.10"):
        write_jar(tmp_path / version / "prices.jar", {SOURCE: [PRICES]})
    machine = ScriptedJava()
    monkeypatch.setattr(shared_host, "_ANSWER_S", 0.1)

    def version_of(java_class: JavaClass) -> str:
        version = Path(java_class.location.path if java_class.location else "").name
        host = machine.hosts[-1]
        if version == "2.10" and how == "crashes":
            host.end = "exit code 1"
        if version == "2.10":
            eventually(lambda: host.end is not None, within_s=60)
        host.ensure_alive()
        return version

    machine.version_of = version_of
    registry = ScriptedPlugins(tmp_path, machine)
    found = registry.find(PluginKind.CONNECTOR, PRICES)
    assert registry.java is not None
    java_class = registry.java.class_of(found)
    assert java_class is not None
    assert java_class.location is not None
    assert java_class.location.path == str(tmp_path / "2.9")
    assert registry.find(PluginKind.CONNECTOR, PRICES, "2.9") is found


def test_older_java_version_is_not_chosen_after_a_single_host_crash(tmp_path: Path) -> None:
    for version in ("2.9", "2.10"):
        write_jar(tmp_path / version / "prices.jar", {SOURCE: [PRICES]})
    machine, ends = ScriptedJava(), ["exit code 3"]

    def version_of(java_class: JavaClass) -> str:
        version = Path(java_class.location.path if java_class.location else "").name
        if version == "2.10" and ends:
            machine.hosts[-1].end = ends.pop()
        machine.hosts[-1].ensure_alive()
        return version

    machine.version_of = version_of
    registry = ScriptedPlugins(tmp_path, machine)
    assert registry.java is not None
    java_class = registry.java.class_of(registry.find(PluginKind.CONNECTOR, PRICES))
    assert java_class is not None
    assert java_class.location is not None
    assert java_class.location.path == str(tmp_path / "2.10")


def test_a_class_outside_of_services_files_is_found_by_its_full_name(tmp_path: Path) -> None:
    hidden = {"org.example.Hidden": class_bytes("org.example.Hidden", SOURCE)}
    write_jar(tmp_path / "one" / "one.jar", classes=hidden)
    registry = ScriptedPlugins(tmp_path)
    assert registry.find(PluginKind.CONNECTOR, "org.example.Hidden").__name__ == "Hidden"
    with pytest.raises(ConfigError, match="Failed to find any class"):
        registry.find(PluginKind.CONNECTOR, "Hidden")


def test_names_in_a_java_connectors_config_resolve_to_java_classes(tmp_path: Path) -> None:
    registry = plugins_with(tmp_path, SERVICES)
    assert registry.java is not None
    config = {
        "value.converter": "Cbor",
        "key.converter": " StringConverter ",
        "header.converter": "org.example.Unknown",
        "transforms": "round, insert,none",
        "transforms.round.type": "Round$Value",
        "transforms.insert.type": "InsertField$Key",
    }
    found = registry.java.classes(config)
    assert {name: one.name for name, one in found.items()} == {
        "Cbor": "org.example.CborConverter",
        "StringConverter": _KAFKA.replace("connect.", "connect.storage.") + "StringConverter",
        "Round$Value": ROUND,
        "InsertField$Key": _KAFKA + "transforms.InsertField$Key",
    }
    assert found["StringConverter"].location is None
    assert registry.machine.hosts == []


def test_settings_of_a_java_class_come_from_its_java_definition(tmp_path: Path) -> None:
    machine = ScriptedJava()
    machine.definitions[PRICES] = [definition("url"), definition("size", "INT", "100", documentation="How many.")]
    found = plugins_with(tmp_path, machine=machine).find(PluginKind.CONNECTOR, PRICES)
    url, size = found.settings().values()
    assert (url.is_required, size.default_value, size.doc, size.kind.value) == (True, 100, "How many.", "INT")


def test_python_plug_ins_and_java_plug_ins_share_a_directory(tmp_path: Path) -> None:
    write_jar(tmp_path / "prices" / "prices.jar", {SOURCE: [PRICES]})
    alone = write_jar(tmp_path / "alone.jar", {SOURCE: ["org.example.Alone"]})
    (tmp_path / "fp_shared_with_java.py").write_text(
        "from fencepost.api import Transform\nclass Shared(Transform): ...\n"
    )
    registry = PluginRegistry([str(tmp_path), str(alone)])
    assert registry.find(PluginKind.TRANSFORM, "Shared").__name__ == "Shared"
    assert registry.find(PluginKind.CONNECTOR, "PriceSource").__name__ == "PriceSourceConnector"
    assert registry.find(PluginKind.CONNECTOR, "org.example.Alone").__name__ == "Alone"
    assert registry.failures() == ()


def test_java_modules_are_not_imported_without_java_plugins(tmp_path: Path) -> None:
    (tmp_path / "fp_only_python.py").write_text("")
    code = (
        "import sys; from fencepost.plugin import use_plugin_path\n"
        f"registry = use_plugin_path([{str(tmp_path)!r}])\n"
        "registry.all_plugins(), registry.names('connector')\n"
        "print(sorted(name for name in sys.modules if name.startswith('fencepost.builtin.java')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light = ["", ".error", ".index", ".port"]  # what reads the directories
    assert done.stdout.strip() == str([f"fencepost.builtin.java{name}" for name in light])
