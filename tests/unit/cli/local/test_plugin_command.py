"""`fencepost plugin`: the reference of a plug-in, and the list of all."""

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fencepost import __version__
from fencepost.builtin.java.install.directory import InstallManifest
from fencepost.builtin.java.install.known import InstallError
from fencepost.cli.local.command import in_short
from fencepost.cli.main import app
from fencepost.config import ConfigError
from support.jars import SINK, SOURCE, write_jar

FEED = '''
from fencepost.api import HIGH, Secret, SourceConnector, SourceTask, Type, at_least, setting

class FeedTask(SourceTask):
    def poll(self):
        return None

class FeedConnector(SourceConnector):
    """Reads a feed.

    A second paragraph, which
    goes on.

    >>> FeedConnector.task
    """

    task = FeedTask
    version = "7.1"
    url: str = setting("feed.url", doc="Where the feed is.", importance=HIGH)
    size: int = setting("batch.size", type=Type.INT, default=100, check=at_least(1), doc="The most records.")
    password: Secret | None = setting("feed.password", default=None, doc="For the feed.")
'''


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plugins")
    (made / "fp_feed.py").write_text(FEED)
    return made


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plugin", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_plugin_describe_prints_settings_as_text(directory: Path) -> None:
    assert run("describe", "Feed", "--plugin-path", str(directory)) == (
        "fp_feed.FeedConnector (source, version 7.1)\n"
        "\n"
        "Reads a feed.\n"
        "\n"
        "A second paragraph, which goes on.\n"
        "\n"
        "feed.url  (string, required, high)\n"
        "    Where the feed is.\n"
        "\n"
        "batch.size  (int, default 100, [1,...], medium)\n"
        "    The most records.\n"
        "\n"
        "feed.password  (password, default unset, medium)\n"
        "    For the feed.\n"
    )


def test_plugin_describe_prints_settings_as_json(directory: Path) -> None:
    found = json.loads(run("describe", "fp_feed.FeedConnector", "--plugin-path", str(directory), "--output", "json"))
    assert (found["class"], found["type"], found["version"]) == ("fp_feed.FeedConnector", "source", "7.1")
    assert [one["name"] for one in found["settings"]] == ["feed.url", "batch.size", "feed.password"]
    assert found["settings"][1] == {
        "name": "batch.size",
        "type": "INT",
        "required": False,
        "default": "100",
        "valid_values": "[1,...]",
        "importance": "MEDIUM",
        "documentation": "The most records.",
    }


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("FileStreamSource", "org.apache.kafka.connect.file.FileStreamSourceConnector (source"),
        ("InsertField$Value", "org.apache.kafka.connect.transforms.InsertField$Value (transformation"),
        ("JsonConverter", "org.apache.kafka.connect.json.JsonConverter (converter"),
        ("DefaultReplicationPolicy", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy (replication_policy"),
    ],
)
def test_plugin_describe_knows_all_kinds(name: str, line: str) -> None:
    assert run("describe", name).startswith(line)


def test_kind_option_chooses_between_plugins_of_the_same_name() -> None:
    assert " (header_converter" in run("describe", "StringConverter", "--kind", "header_converter")


def test_plugin_describe_suggests_a_name_for_an_unknown_plugin(directory: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean FeedConnector"):
        run("describe", "Fed", "--plugin-path", str(directory))


def test_plugin_list_names_all_plugins_and_files_that_failed_to_load(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "fp_broken_feed.py").write_text("import no_such_module")
    paths = ["--plugin-path", str(directory), "--plugin-path", str(tmp_path)]
    result = CliRunner().invoke(app, ["plugin", "list", *paths, "--kind", "connector"])
    assert "connector  fp_feed.FeedConnector" in result.output
    assert "fp_broken_feed.py could not be loaded" in result.output
    assert "transform " not in result.output


def write_manifest(jar: Path, version: str) -> None:
    files = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()}
    InstallManifest(f"org.example:prices:{version}", "org.example:prices", files).write(jar.parent)


@pytest.fixture
def java_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default directory, in which `prices` was installed and `own` was put by hand."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = tmp_path / "fencepost" / "plugins"
    jar = write_jar(found / "prices" / "prices.jar", {SOURCE: ["org.example.PriceSource"]})
    write_manifest(jar, "1")
    write_jar(found / "own" / "own.jar", {SINK: ["org.example.OwnSink"]})
    return found


def test_plugin_list_names_java_plugins_of_the_default_directory_and_origin(java_plugins: Path) -> None:
    lines = [line.split() for line in run("list").splitlines()]
    assert ["connector", "org.example.PriceSource", "1", "org.example:prices:1"] in lines
    (own,) = (line for line in lines if "org.example.OwnSink" in line)
    assert own[2].endswith("/fencepost/plugins/own")
    assert ["connector", "org.apache.kafka.connect.file.FileStreamSourceConnector", __version__, "built", "in"] in lines


def test_plugin_list_reports_a_jar_that_changed_since_installation(java_plugins: Path) -> None:
    assert "is not as it was installed" not in CliRunner().invoke(app, ["plugin", "list"]).output
    write_jar(java_plugins / "prices" / "prices.jar", {SOURCE: ["org.example.OtherSource"]})
    output = CliRunner().invoke(app, ["plugin", "list"]).output
    assert "prices is not as it was installed, since prices.jar changed: fencepost plugin install org.ex" in output


def test_removed_plugin_is_no_longer_installed(java_plugins: Path) -> None:
    assert run("remove", "org.example:prices").startswith(f"Removed org.example:prices:1 from {java_plugins}\n")
    assert "PriceSource" not in run("list")
    with pytest.raises(InstallError, match="prices is not installed"):
        run("remove", "prices")


def test_plugin_remove_uses_the_first_directory_in_the_workers_file(java_plugins: Path, tmp_path: Path) -> None:
    other = write_jar(tmp_path / "other" / "prices" / "prices.jar", {SOURCE: ["org.example.PriceSource"]})
    write_manifest(other, "2")
    (tmp_path / "worker.properties").write_text(f"plugin.path=/opt/a.jar, {tmp_path / 'other'}, {java_plugins}\n")
    assert run("remove", "prices", "--properties", str(tmp_path / "worker.properties")).startswith(
        "Removed org.example:prices:2 "
    )
    (tmp_path / "worker.properties").write_text("plugin.path=/opt/a.jar\n")
    with pytest.raises(InstallError, match=r"names no directory in plugin\.path"):
        run("remove", "prices", "--properties", str(tmp_path / "worker.properties"))


def test_plugin_list_uses_the_directories_in_the_workers_file(
    java_plugins: Path, directory: Path, tmp_path: Path
) -> None:
    jar = write_jar(tmp_path / "one.jar", {SINK: ["org.example.OneSink"]})
    file = tmp_path / "worker.properties"
    file.write_text(f"plugin.path={directory}, {jar}\n")
    listed = run("list", "--properties", str(file))
    assert "fp_feed.FeedConnector" in listed
    assert "org.example.OneSink" in listed
    assert "PriceSource" not in listed, "it is in the default directory, which this worker does not have"
    assert run("describe", "Feed", "--properties", str(file)).startswith("fp_feed.FeedConnector (source")


def test_plugin_search_prints_the_install_command_of_known_connectors() -> None:
    lines = run("search", "postgres").splitlines()
    assert lines[0].split("  ")[0] == "CLASS"
    assert lines[1].split() == [
        "io.debezium.connector.postgresql.PostgresConnector", "fencepost", "plugin", "install",
        "io.debezium:debezium-connector-postgres",
    ]  # fmt: skip
    assert "Nothing that is known here has nonsense in its name" in run("search", "nonsense")
    assert json.loads(run("search", "redis", "--output", "json")) == [
        {"class": "com.redis.kafka.connect.RedisSinkConnector", "plugin": "redis/redis-kafka-connect"}
    ]


def test_plugin_list_shows_version_and_origin_of_python_plugins(directory: Path) -> None:
    lines = run("list", "--plugin-path", str(directory), "--kind", "connector").splitlines()
    assert lines[0].split() == ["KIND", "CLASS", "VERSION", "FROM"]
    own = next(line for line in lines if "fp_feed" in line).split()
    assert own[1:3] == ["fp_feed.FeedConnector", "7.1"]
    assert own[3].endswith("fp_feed.py")
    assert next(line for line in lines if "DatagenConnector" in line).endswith("built in")


def test_plugin_origins_are_shortened_to_fit_a_table_cell() -> None:
    assert in_short(["a:b:1"]) == "a:b:1"
    assert in_short(["a:b:1", "c:d:2", "e:f:3"]) == "a:b:1 and 2 more"
    long = "/opt/" + "x" * 80 + "/end"
    assert in_short([long]).startswith("…x")
    assert in_short([long]).endswith("/end")
