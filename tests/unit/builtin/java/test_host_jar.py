"""The host's jar: compiled when its sources have changed, and only then."""

import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from fencepost.builtin.java import host_jar
from fencepost.builtin.java.error import JavaUnavailableError
from fencepost.embedded.java import Java

_JAVA = Java(Path("java"), "17")


class Compiler:
    """Stands for javac: its class is the text of the first source."""

    def __init__(self) -> None:
        self.runs = 0

    def compile(self, java: Java, sources: Sequence[Path], stamp: str) -> None:
        self.runs += 1
        classes = host_jar.JAR.with_name("classes")
        classes.mkdir(exist_ok=True)
        (classes / "Host.class").write_text(sources[0].read_text())
        host_jar._pack(classes, host_jar.JAR, stamp)


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    found = Compiler()
    monkeypatch.setattr(host_jar, "JAR", tmp_path / "host.jar")
    monkeypatch.setattr(host_jar, "_SOURCES", tmp_path / "jvm")
    monkeypatch.setattr(host_jar, "_compile", found.compile)
    return found


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "jvm").mkdir(exist_ok=True)
    (tmp_path / "jvm" / "Host.java").write_text(text)


def test_a_jar_is_compiled_once_for_each_change_of_its_sources(tmp_path: Path, compiler: Compiler) -> None:
    for text in ("one", "one", "two", "two", "one"):
        write(tmp_path, text)
        with zipfile.ZipFile(host_jar.ensure_jar(_JAVA)) as jar:
            assert jar.read("Host.class").decode() == text
    assert compiler.runs == 3


def test_a_jar_that_is_damaged_is_compiled_again(tmp_path: Path, compiler: Compiler) -> None:
    write(tmp_path, "one")
    host_jar.ensure_jar(_JAVA).write_bytes(b"damaged")
    assert zipfile.is_zipfile(host_jar.ensure_jar(_JAVA))


def test_the_same_classes_make_the_same_jar(tmp_path: Path, compiler: Compiler) -> None:
    write(tmp_path, "one")
    first = host_jar.ensure_jar(_JAVA).read_bytes()
    host_jar.JAR.unlink()
    assert host_jar.ensure_jar(_JAVA).read_bytes() == first


def test_jar_without_sources_is_used_unchanged(tmp_path: Path, compiler: Compiler) -> None:
    host_jar.JAR.write_bytes(b"from the wheel")
    assert host_jar.ensure_jar(_JAVA) == host_jar.JAR
    assert compiler.runs == 0


def test_missing_jar_and_sources_are_an_error(compiler: Compiler) -> None:
    with pytest.raises(JavaUnavailableError, match="install Fencepost again"):
        host_jar.ensure_jar(_JAVA)


def test_setup_goes_on_without_a_compiler(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "one")

    def refuse(*arguments: object) -> None:
        raise JavaUnavailableError("no compiler")

    monkeypatch.setattr(host_jar, "_compile", refuse)
    assert host_jar.main() == 0
    assert "Java plug-ins cannot be used: " in capsys.readouterr().err


def test_wheel_and_source_distribution_contain_the_jar_that_git_ignores() -> None:
    root = Path(__file__).parents[4]
    build = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert host_jar.JAR.relative_to(root).as_posix() in build["artifacts"]
    assert str(host_jar.JAR.relative_to(root)) in (root / ".gitignore").read_text().splitlines()
    assert not any("artifacts" in target for target in build["targets"].values())  # that would replace these
