"""What child processes print may be in any encoding: a part that cannot be read is replaced, and nothing fails."""

import re
from pathlib import Path

import pytest

import fencepost
from fencepost.embedded.error import IvyError
from fencepost.embedded.home import run
from fencepost.embedded.java import Java, find_java

_SOURCES = sorted(Path(fencepost.__file__).parent.rglob("*.py"))
_LATIN = b"caf\xe9"  # the last character in Latin-1


def launcher(path: Path, script: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def test_ivy_output_in_another_encoding_is_included_in_the_error(tmp_path: Path) -> None:
    java = Java(launcher(tmp_path / "java", b"echo 'no " + _LATIN + b"'; exit 1"), "17")
    with pytest.raises(IvyError, match="Ivy said:\nno caf\N{REPLACEMENT CHARACTER}"):
        run(java, [], "Kafka")


def test_java_that_prints_its_options_in_another_encoding_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each JVM prints JAVA_TOOL_OPTIONS."""
    script = b"echo 'Picked up JAVA_TOOL_OPTIONS: -Da=" + _LATIN + b"' >&2; echo 'openjdk version \"17.0.15\"' >&2"
    launcher(tmp_path / "bin" / "java", script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java().version == "17.0.15"


def test_no_child_process_is_read_in_the_locale_encoding() -> None:
    """The locale encoding is strict: one undecodable byte would raise in the caller."""
    assert len(_SOURCES) > 200
    found = re.compile(r"\b(text|universal_newlines)=True")
    assert [file.name for file in _SOURCES if found.search(file.read_text(encoding="utf-8"))] == []
