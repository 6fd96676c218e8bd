"""A plug-in appears whole or not at all, in place of its older version, and never in place of something else."""

import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fencepost.builtin.java.index import JavaIndex, JavaKind
from fencepost.builtin.java.install import maven, origin
from fencepost.builtin.java.install.directory import FILE_NAME, InstallManifest, PluginDirectory
from fencepost.builtin.java.install.install import _ensure_safe, install
from fencepost.builtin.java.install.known import InstallError
from fencepost.builtin.java.install.origin import Archive, Coordinates, Origin, origin_of
from support.jars import SINK, SOURCE, class_bytes, write_jar

PRICES = "org.example.PriceSourceConnector"
ONE, TWO = Coordinates("org.example", "prices", "1"), Coordinates("org.example", "prices", "2")


@pytest.fixture
def place(tmp_path: Path) -> PluginDirectory:
    return PluginDirectory(tmp_path / "plugins")


@pytest.fixture(autouse=True)
def repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand for a Maven repository: `prices` has a connector, anything else is a library."""

    def fetch(coordinates: Coordinates, directory: Path, repository: str | None = None) -> None:
        services = {SOURCE: [PRICES]} if coordinates.artifact == "prices" else {}
        write_jar(directory / f"{coordinates.artifact}-{coordinates.version}.jar", services)
        write_jar(directory / "driver.jar")

    monkeypatch.setattr(maven, "fetch", fetch)


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir() if not entry.name.endswith(".lock")}


def found(place: PluginDirectory) -> list[str]:
    return sorted(JavaIndex([str(place.path)]).named(JavaKind.SOURCE))


def test_a_plug_in_gets_a_directory_with_a_manifest(place: PluginDirectory) -> None:
    done = install(ONE, place)
    assert (done.directory, done.replaced) == (place.path / "prices", None)
    assert names(place.path) == {"prices"}
    assert names(done.directory) == {"prices-1.jar", "driver.jar", FILE_NAME}
    manifest = InstallManifest.read(done.directory)
    assert manifest is not None
    assert (manifest.origin, manifest.identity) == ("org.example:prices:1", "org.example:prices")
    assert manifest.files.keys() == {"prices-1.jar", "driver.jar"}
    assert manifest.changed(done.directory) == []
    assert found(place) == [PRICES]


def test_plugin_of_another_version_replaces_all_files_of_the_installed_one(place: PluginDirectory) -> None:
    install(ONE, place)
    replaced = install(TWO, place).replaced
    assert replaced is not None
    assert replaced.manifest.origin == "org.example:prices:1"
    assert names(place.path) == {"prices"}
    assert names(place.path / "prices") == {"prices-2.jar", "driver.jar", FILE_NAME}


def test_reinstalling_the_same_version_repairs_a_damaged_plugin(place: PluginDirectory) -> None:
    directory = install(ONE, place).directory
    (directory / "driver.jar").write_bytes(b"damaged")
    (directory / "new.jar").touch()
    [installed] = place.installed()
    assert installed.manifest.changed(directory) == ["driver.jar", "new.jar"]
    install(ONE, place)
    [installed] = place.installed()
    assert installed.manifest.changed(directory) == []


def test_versions_are_side_by_side_under_different_names(place: PluginDirectory) -> None:
    install(ONE, place, "prices-1")
    install(TWO, place, "prices-2")
    assert [one.manifest.origin for one in place.installed()] == ["org.example:prices:1", "org.example:prices:2"]
    assert len(JavaIndex([str(place.path)]).named(JavaKind.SOURCE)[PRICES]) == 2


@pytest.mark.parametrize("name", ["../prices", ".prices", "", "a/b"])
def test_plugin_name_that_is_no_plain_directory_name_is_refused(place: PluginDirectory, name: str) -> None:
    if name:
        with pytest.raises(InstallError, match="cannot be the name of a directory"):
            install(ONE, place, name)
    with place.staged() as scratch, pytest.raises(InstallError):
        place.put(scratch, name, "", "")


def test_directory_not_installed_by_fencepost_is_neither_replaced_nor_removed(place: PluginDirectory) -> None:
    write_jar(place.path / "prices" / "by-hand.jar")
    with pytest.raises(InstallError, match="exists, and was not installed by Fencepost: remove it first"):
        install(ONE, place)
    assert names(place.path / "prices") == {"by-hand.jar"}
    with pytest.raises(InstallError, match="was not installed by `fencepost plugin install`: delete it yourself"):
        place.remove("prices")


def test_artifact_of_another_group_does_not_replace_an_installed_plugin(place: PluginDirectory) -> None:
    install(ONE, place)
    with pytest.raises(InstallError, match=r"exists, and is org.example:prices:1: remove it first"):
        install(Coordinates("com.other", "prices", "1"), place)
    assert found(place) == [PRICES]


def test_library_without_plugins_is_refused_and_leaves_no_files(place: PluginDirectory) -> None:
    with pytest.raises(InstallError, match=r"has no connector, .* in 2 jars: it is a library"):
        install(Coordinates("org.example", "driver-api", "1"), place)
    assert names(place.path) == set()


def test_failed_installation_leaves_the_installed_version_untouched(
    place: PluginDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(ONE, place)
    seen: list[list[str]] = []

    def fail(coordinates: Coordinates, directory: Path, repository: str | None = None) -> None:
        write_jar(directory / "half.jar", {SOURCE: ["org.example.Half"]})
        seen.append(found(place))
        raise OSError(28, "No space left on device", str(directory))

    monkeypatch.setattr(maven, "fetch", fail)
    with pytest.raises(InstallError, match="cannot be written: No space left on device"):
        install(TWO, place)
    assert seen == [[PRICES]]
    assert names(place.path) == {"prices"}
    assert names(place.path / "prices") == {"prices-1.jar", "driver.jar", FILE_NAME}


def test_interrupted_installation_of_a_dead_process_is_rolled_back(place: PluginDirectory) -> None:
    install(ONE, place)
    (place.path / "prices").rename(place.path / ".replaced-prices")
    write_jar(place.path / ".install-x" / "prices" / "half.jar", {SOURCE: ["org.example.Half"]})
    assert found(place) == []
    install(TWO, place, "other")
    assert names(place.path) == {"prices", "other"}
    assert (place.path / "prices" / "prices-1.jar").exists()
    (place.path / ".replaced-other").mkdir()
    install(TWO, place, "other")
    assert names(place.path) == {"prices", "other"}


@pytest.mark.parametrize("name", ["prices", "org.example:prices", "org.example:prices:1"])
def test_plugin_is_removed_by_any_of_its_names(place: PluginDirectory, name: str) -> None:
    install(ONE, place)
    assert place.remove(name).manifest.origin == "org.example:prices:1"
    assert names(place.path) == set()
    with pytest.raises(InstallError, match=r"is not installed in .*; what is: nothing"):
        place.remove(name)


def test_removal_must_name_the_version_when_two_are_installed(place: PluginDirectory) -> None:
    install(ONE, place)
    install(TWO, place, "prices-2")
    with pytest.raises(InstallError, match="is installed in prices and prices-2"):
        place.remove("org.example:prices")
    place.remove("org.example:prices:2")
    assert names(place.path) == {"prices"}


def test_plugin_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InstallError, match=r"cannot be written: Not a directory; .* --plugin-path"):
        install(ONE, PluginDirectory(tmp_path / "file" / "plugins"))


def test_old_plug_ins_without_services_files_are_found_by_their_classes(place: PluginDirectory, tmp_path: Path) -> None:
    classes = {
        "org.example.Base": class_bytes("org.example.Base", SINK),
        "org.example.OldSink": class_bytes("org.example.OldSink", "org.example.Base"),
    }
    install(origin_of(str(write_jar(tmp_path / "old-1.0.jar", {}, classes))), place)
    assert names(place.path) == {"old"}
    assert [one.kind for one in JavaIndex([str(place.path)]).outside("org.example.OldSink")] == [JavaKind.SINK]


# archives


def debezium_like(path: Path) -> Path:
    """Write an archive like Debezium's: one directory with jars."""
    jar = write_jar(path.parent / "prices.jar", {SOURCE: [PRICES]})
    with tarfile.open(path, "w:gz") as tar:
        tar.add(jar, "prices-connector/prices-1.0.jar")
    return path


def hub_like(path: Path) -> Path:
    """Write an archive like Confluent Hub's: a directory with a manifest and jars below."""
    jar = write_jar(path.parent / "prices.jar", {SOURCE: [PRICES]})
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.write(jar, "example-prices-1.0/lib/prices-1.0.jar")
        manifest = {"name": "prices", "version": "1.0", "owner": {"username": "example"}}
        zipped.writestr("example-prices-1.0/manifest.json", json.dumps(manifest))
    return path


def test_archives_with_the_layouts_of_debezium_and_the_hub_are_unpacked(place: PluginDirectory, tmp_path: Path) -> None:
    one = origin_of(str(debezium_like(tmp_path / "prices-1.0-plugin.tar.gz")))
    two = origin_of(str(hub_like(tmp_path / "d29f-prices.zip")))
    assert (install(one, place).directory.name, install(two, place).directory.name) == (
        "prices-connector",
        "example-prices",
    )
    assert (place.path / "example-prices" / "lib" / "prices-1.0.jar").exists()
    again = install(one, place).replaced
    assert again is not None
    assert again.manifest.origin == str(tmp_path / "prices-1.0-plugin.tar.gz")


def test_plugin_from_an_archive_of_loose_jars_is_named_after_the_file(place: PluginDirectory, tmp_path: Path) -> None:
    jar = write_jar(tmp_path / "prices.jar", {SOURCE: [PRICES]})
    with zipfile.ZipFile(tmp_path / "prices-2.1.zip", "w") as zipped:
        zipped.write(jar, "prices.jar")
        zipped.write(jar, "copy.jar")
    assert install(origin_of(str(tmp_path / "prices-2.1.zip")), place).directory.name == "prices"


def test_archive_writes_no_file_outside_its_directory(place: PluginDirectory, tmp_path: Path) -> None:
    jar = write_jar(tmp_path / "prices.jar", {SOURCE: [PRICES]})
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as tar:
        tar.add(jar, "../../outside.jar")
    with pytest.raises(InstallError, match=r"bad.tar.gz cannot be unpacked"):
        install(origin_of(str(tmp_path / "bad.tar.gz")), place)
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as zipped:
        zipped.write(jar, "../../outside.jar")
    install(origin_of(str(tmp_path / "odd.zip")), place)
    assert list(tmp_path.rglob("outside.jar")) == [place.path / "odd" / "outside.jar"]


@pytest.mark.parametrize("name", ["bad.zip", "bad.tar.gz", "bad.jar"])
def test_a_damaged_archive_is_an_error(place: PluginDirectory, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<html>Sign in</html>")
    with pytest.raises(InstallError, match=r"cannot be unpacked|has no connector"):
        install(origin_of(str(tmp_path / name)), place)
    assert names(place.path) == set()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    data = debezium_like(tmp_path / "served.tar.gz").read_bytes()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path.startswith("/prices.tar.gz") else 404)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://me:hunter2@127.0.0.1:{made.server_port}"
        made.shutdown()


def fetched(place: PluginDirectory, origin: Origin) -> InstallManifest:
    manifest = InstallManifest.read(install(origin, place).directory)
    assert manifest is not None
    return manifest


def test_an_archive_at_a_url_is_downloaded_and_recorded_without_its_secrets(
    place: PluginDirectory, server: str
) -> None:
    manifest = fetched(place, origin_of(f"{server}/prices.tar.gz?token=hunter3"))
    assert manifest.origin == f"{server.replace('me:hunter2@', '')}/prices.tar.gz"
    assert names(place.path) == {"prices-connector"}
    assert list(manifest.files) == ["prices-1.0.jar"]


def test_a_url_that_does_not_answer_is_an_error(place: PluginDirectory, server: str) -> None:
    with pytest.raises(InstallError, match=r"gone.zip could not be fetched: the server answered 404"):
        install(origin_of(f"{server}/gone.zip"), place)
    with pytest.raises(InstallError, match=r"could not be fetched: ConnectError. Where there is no network"):
        install(origin_of("http://127.0.0.1:1/prices.zip"), place)


def test_error_for_a_failed_hub_download_names_the_archive_and_the_page(
    place: PluginDirectory, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "_HUB_DOWNLOADS", f"{server}/api")
    with pytest.raises(InstallError) as caught:
        install(origin_of("acme/prices:9"), place)
    url = server.replace("me:hunter2@", "")
    assert str(caught.value) == (
        f"{url}/api/acme/prices/versions/9/acme-prices-9.zip could not be fetched: the server answered 404. "
        "All versions are on https://www.confluent.io/hub/acme/prices"
    )


def test_archive_is_installed_only_with_the_checksum_that_was_given(place: PluginDirectory, server: str) -> None:
    with pytest.raises(InstallError, match="is not the file that was expected: its SHA-256 is ") as raised:
        install(origin_of(f"{server}/prices.tar.gz", "0" * 64), place)
    right = str(raised.value).split("SHA-256 is ")[1][:64]
    assert names(place.path) == set()
    install(origin_of(f"{server}/prices.tar.gz", right), place)
    assert names(place.path) == {"prices-connector"}


@pytest.mark.parametrize("urls", [["http://host/a.zip"], ["https://a/", "http://b/", "https://c/"]])
def test_redirection_to_plain_http_is_refused_without_a_checksum(urls: list[str]) -> None:
    with pytest.raises(InstallError, match="redirected to plain http"):
        _ensure_safe(Archive("https://host/a.zip"), urls)
    _ensure_safe(Archive("https://host/a.zip", "0" * 64), urls)
