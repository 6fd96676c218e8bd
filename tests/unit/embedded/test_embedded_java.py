"""Finding Java: one clear line when there is none."""

from pathlib import Path

import pytest

from fencepost.embedded import JavaMissingError
from fencepost.embedded.java import INSTALL_COMMAND, find_java


def _fake_java(home: Path, version: str) -> None:
    (home / "bin").mkdir(parents=True)
    launcher = home / "bin" / "java"
    launcher.write_text("#!/bin/sh\nexit 1\n")
    launcher.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')


def test_missing_java_error_names_the_install_command_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissingError) as caught:
        find_java()
    assert INSTALL_COMMAND in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_java_older_than_17_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    _fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match=f"is version {version.split('_')[0]}.*{INSTALL_COMMAND}"):
        find_java()


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21)])
def test_java_home_is_preferred_to_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: int
) -> None:
    _fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = find_java()
    assert java.path == tmp_path / "bin" / "java"
    assert java.major == major


def test_java_that_does_not_run_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_java(tmp_path, "17")
    (tmp_path / "release").unlink()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match="does not run"):
        find_java()
