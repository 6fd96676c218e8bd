"""The cache of jars: fetched once, verified, refused when it differs."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.embedded import JarError, checksum, home, layout
from fencepost.embedded.home import KafkaHome, ensure_home
from fencepost.embedded.java import Java

_JAVA = Java(Path("java"), "17")
_JARS = {"a-1.jar": b"alpha", "b-1.jar": b"beta"}


class _Registry:
    """Stands for Ivy: serves small files and counts how often it was asked."""

    def __init__(self) -> None:
        self.jars = dict(_JARS)
        self.fetches = 0

    def retrieve(self, java: Java, coordinates: object, directory: Path, *, expected_jars: int) -> None:
        self.fetches += 1
        directory.mkdir(parents=True)
        for name, content in self.jars.items():
            (directory / name).write_bytes(content)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> _Registry:
    registry = _Registry()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in _JARS.items()}
    monkeypatch.setattr(checksum, "committed", lambda: digests)
    monkeypatch.setattr(home, "retrieve", registry.retrieve)
    monkeypatch.setattr(layout, "write_bootstrap_snapshot", lambda java, path, target: target.touch())
    return registry


def test_kafka_jars_are_fetched_once(registry: _Registry, tmp_path: Path) -> None:
    first = ensure_home(_JAVA, tmp_path)
    second = ensure_home(_JAVA, tmp_path)
    assert first == second
    assert [jar.name for jar in second.jars] == sorted(_JARS)
    assert registry.fetches == 1


def test_kafka_jars_are_fetched_once_by_concurrent_callers(registry: _Registry, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        homes = list(pool.map(lambda _: ensure_home(_JAVA, tmp_path), range(4)))
    assert len(set(homes)) == 1
    assert registry.fetches == 1


def test_kafka_jar_download_with_wrong_contents_is_refused_and_not_kept(registry: _Registry, tmp_path: Path) -> None:
    registry.jars["b-1.jar"] = b"evil"
    with pytest.raises(JarError, match=r"b-1\.jar has SHA-256 .*, expected"):
        ensure_home(_JAVA, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{home.KAFKA_VERSION}.lock"]


def test_kafka_jar_download_with_a_missing_and_an_extra_jar_is_refused(registry: _Registry, tmp_path: Path) -> None:
    registry.jars["c-1.jar"] = registry.jars.pop("b-1.jar")
    with pytest.raises(JarError, match=r"b-1\.jar is missing; c-1\.jar is not in the list"):
        ensure_home(_JAVA, tmp_path)


def test_changed_cached_kafka_jar_is_refused_with_the_directory_to_delete(registry: _Registry, tmp_path: Path) -> None:
    cached = ensure_home(_JAVA, tmp_path)
    cached.jars[0].write_bytes(b"alphA")
    os.utime(cached.jars[0], (0, 0))
    with pytest.raises(JarError, match=rf"a-1\.jar has SHA-256.*Delete {cached.directory} to"):
        ensure_home(_JAVA, tmp_path)
    assert registry.fetches == 1


def test_cached_kafka_jar_with_only_a_new_timestamp_is_accepted(registry: _Registry, tmp_path: Path) -> None:
    cached = ensure_home(_JAVA, tmp_path)
    (cached.directory / "logging" / next(cached.directory.glob("logging/*")).name).touch()
    os.utime(cached.jars[0], (0, 0))
    assert not cached.is_as_verified()
    assert ensure_home(_JAVA, tmp_path).is_as_verified()


def test_valid_kafka_jars_in_an_unwritable_cache_are_used(registry: _Registry, tmp_path: Path) -> None:
    """As on a read-only disk with copied jars. Root may write anywhere, so directories take the names of the files."""
    cached = ensure_home(_JAVA, tmp_path)
    for taken in (cached.directory / "manifest.json", cached.lock):
        taken.unlink()
        taken.mkdir()
    assert ensure_home(_JAVA, tmp_path) == cached
    assert registry.fetches == 1


def test_jar_cache_is_in_the_xdg_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert home.default_cache() == tmp_path / "fencepost"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert home.default_cache() == Path.home() / ".cache" / "fencepost"


def test_the_committed_list_names_the_45_jars_of_this_version() -> None:
    committed = checksum.committed()
    assert len(committed) == 45
    assert f"kafka_2.13-{home.KAFKA_VERSION}.jar" in committed
    assert all(len(digest) == 64 for digest in committed.values())


def test_own_logging_jars_come_first_on_the_classpath(registry: _Registry, tmp_path: Path) -> None:
    names = [Path(entry).name for entry in KafkaHome(ensure_home(_JAVA, tmp_path).directory).classpath.split(":")]
    assert names[0].startswith("log4j-slf4j2-impl")
    assert names[-2:] == ["a-1.jar", "b-1.jar"]
