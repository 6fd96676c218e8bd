"""Sets of jars: fetched once, verified, refused when they differ."""

import hashlib
import os
from pathlib import Path

import pytest

from fencepost.embedded import JarError, home
from fencepost.embedded.home import default_cache, ensure_jars
from fencepost.embedded.java import Java

_JAVA = Java(Path("java"), "17")
_EXPECTED = {f"{name}-1.jar": hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b")}


class Registry:
    """Stands for Ivy: each module is a jar of its name."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.content = {"a": b"a", "b": b"b"}

    def retrieve(self, java: Java, coordinates: tuple[str, str, str], directory: Path, *, expected_jars: int) -> None:
        _, module, _ = coordinates
        self.fetched.append(module)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{module}-1.jar").write_bytes(self.content[module])


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = Registry()
    monkeypatch.setattr(home, "retrieve", registry.retrieve)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return registry


def test_jar_set_is_fetched_once(registry: Registry) -> None:
    for _ in range(2):
        jars = ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
        assert [jar.read_bytes() for jar in jars] == [b"a", b"b"]
    assert registry.fetched == ["a", "b"]


def test_jar_set_with_a_wrong_hash_is_not_kept(registry: Registry) -> None:
    registry.content["b"] = b"other"
    with pytest.raises(JarError, match=r"b-1\.jar has SHA-256"):
        ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
    assert not (default_cache() / "set").exists()
    registry.content["b"] = b"b"
    assert len(ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)) == 2


def test_changed_jar_of_a_set_is_refused_with_the_directory_to_delete(registry: Registry) -> None:
    (first, _) = ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
    first.write_bytes(b"changed")
    with pytest.raises(JarError, match=rf"a-1\.jar has SHA-256.*Delete {first.parent}"):
        ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)


def test_copied_jar_set_is_verified_and_kept(registry: Registry) -> None:
    (first, _) = ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
    os.utime(first, (0, 0))
    assert ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)[0] == first
    assert registry.fetched == ["a", "b"]


def test_jar_set_with_timestamps_in_whole_seconds_is_not_verified_again(registry: Registry) -> None:
    """Image layers store timestamps in whole seconds, and their directories are often read-only."""
    jars = ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
    manifest = jars[0].with_name("manifest.json")
    for each in jars:
        os.utime(each, ns=(0, 1_700_000_000_900_000_000))
    ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
    before = manifest.stat().st_mtime_ns
    for each in jars:
        os.utime(each, ns=(0, 1_700_000_000_000_000_000))
    ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
    assert manifest.stat().st_mtime_ns == before


def test_unwritable_jar_cache_is_named_with_advice(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "fencepost").write_text("where the directory should be")
    with pytest.raises(JarError, match=rf"set cannot be kept in {default_cache()}: .*XDG_CACHE_HOME"):
        ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)


def test_valid_jar_set_in_an_unwritable_cache_is_used(registry: Registry, tmp_path: Path) -> None:
    """As in an image with copied jars. Root may write anywhere, so directories take the names of the files."""
    jars = ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)
    for taken in (jars[0].with_name("manifest.json"), default_cache() / "set.lock"):
        taken.unlink()
        taken.mkdir()
    assert ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED) == jars
    jars[1].write_bytes(b"changed")
    with pytest.raises(JarError, match=r"b-1\.jar has SHA-256"):
        ensure_jars(_JAVA, "set", ["a", "b"], _EXPECTED)


def test_java_that_does_not_start_is_not_reported_as_an_unwritable_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    missing = Java(tmp_path / "java", "17")
    with pytest.raises(JarError, match=rf"could not be fetched, because {missing.path} cannot be started") as caught:
        ensure_jars(missing, "set", ["a", "b"], _EXPECTED)
    assert "XDG_CACHE_HOME" not in str(caught.value)
