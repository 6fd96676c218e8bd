"""What Ivy is asked for, and what its answers mean."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fencepost.builtin.java.install import maven
from fencepost.builtin.java.install.known import InstallError
from fencepost.builtin.java.install.origin import Coordinates
from fencepost.embedded import JavaMissingError, home
from fencepost.embedded.error import IvyError
from fencepost.embedded.java import Java

PRICES = Coordinates("org.example", "prices", "1.0")
_REFUSED = "\tServer access error at url https://host/prices.pom (java.net.ConnectException: Connection refused)"


class Ivy:
    """Stands for Ivy: writes a jar, or fails with these lines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.lines: Sequence[str] | None = None
        self.has_jar = True
        self.jars: dict[str, bytes] = {}
        self.asked = ""
        monkeypatch.setattr(home, "run", self.run)
        monkeypatch.setattr(maven, "find_java", lambda: Java(Path("java"), "17"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def run(self, java: Java, arguments: Sequence[str], what: str, advance: Any) -> None:
        self.asked = Path(arguments[1]).read_text()
        self.settings = Path(arguments[5]).read_text() if len(arguments) > 4 else ""
        if self.lines is not None:
            raise IvyError("Ivy failed", self.lines)
        for name, data in self.jars.items():
            Path(arguments[3]).with_name(name).write_bytes(data)
        if self.has_jar:
            Path(arguments[3]).with_name("prices-1.0.jar").touch()


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ivy:
    return Ivy(monkeypatch, tmp_path)


def message(tmp_path: Path) -> str:
    with pytest.raises(InstallError) as caught:
        maven.fetch(PRICES, tmp_path / "fresh")
    return str(caught.value)


def test_fetched_jars_are_in_the_directory(repository: Ivy, tmp_path: Path) -> None:
    maven.fetch(PRICES, tmp_path / "fresh")
    assert [path.name for path in (tmp_path / "fresh").iterdir()] == ["prices-1.0.jar"]
    assert '<dependency org="org.example" name="prices" rev="1.0"' in repository.asked


def test_jackson_jar_equal_to_connects_is_left_out_and_another_is_kept(
    repository: Ivy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = hashlib.sha256(b"same").hexdigest()
    monkeypatch.setattr(maven, "listed_jars", lambda: {f"jackson-{n}-2.0.jar": same for n in ("core", "databind")})
    repository.jars = {f"jackson-{name}-2.0.jar": b"same" for name in ("core", "databind", "module-x")}
    maven.fetch(PRICES, tmp_path / "one")
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"prices-1.0.jar", "jackson-module-x-2.0.jar"}
    repository.jars["jackson-core-2.0.jar"] = b"another"
    maven.fetch(PRICES, tmp_path / "two")
    assert len([*(tmp_path / "two").iterdir()]) == 4


@pytest.mark.parametrize(
    ("version", "is_left_out"), [("2.19.0", True), ("2.20.1", True), ("2.22.0", False), ("3.0", False)]
)
def test_jackson_jar_of_debezium_is_left_out_unless_newer(
    repository: Ivy, tmp_path: Path, version: str, is_left_out: bool
) -> None:
    repository.jars = {f"jackson-{n}-{version}.jar": b"x" for n in ("annotations", "core", "databind", "datatype-x")}
    repository.jars["debezium-core-3.5.0.Final.jar"] = b"x"
    maven.fetch(PRICES, tmp_path / "one")
    assert len([*(tmp_path / "one").glob("jackson-*")]) == (1 if is_left_out else 4)


def test_given_repository_serves_all_artifacts(repository: Ivy, tmp_path: Path) -> None:
    maven.fetch(PRICES, tmp_path / "fresh", "https://host/a&b")
    assert 'root="https://host/a&amp;b/"' in repository.settings
    assert 'defaultResolver="given"' in repository.settings


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://host/maven", "anybody in the network can replace what is there; take https"),
        ("ftp://host/maven", "expected https://HOST/PATH or file:///PATH"),
        ("https://me:hunter22@host/maven", "a repository with a password is not supported"),
    ],
)
def test_repository_that_is_not_safe_is_refused_without_its_password(url: str, words: str) -> None:
    with pytest.raises(InstallError, match=words) as caught:
        maven.ensure_repository(url)
    assert "hunter22" not in str(caught.value)
    for other in ("https://host/maven", "http://127.0.0.1:8081/maven", "file:///srv/maven"):
        maven.ensure_repository(other)


def test_error_for_an_artifact_only_on_the_hub_names_the_install_command(repository: Ivy, tmp_path: Path) -> None:
    repository.lines = ["\t\tmodule not found: io.confluent#kafka-connect-jdbc;10.8.4"]
    with pytest.raises(InstallError, match="`fencepost plugin install confluentinc/kafka-connect-jdbc` installs it"):
        maven.fetch(Coordinates("io.confluent", "kafka-connect-jdbc", "10.8.4"), tmp_path / "fresh")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["\t\tmodule not found: org.example#prices;1.0"], "is not in the Maven repository: check group, artifact and"),
        (["\t\tmodule not found: org.other#driver;2"], "needs org.other:driver:2, which the Maven repository does not"),
        ([_REFUSED, "\t\tmodule not found: org.example#prices;1.0"], "the Maven repository cannot be reached"),
        (["\tHost host not found. url=https://host/a"], "the Maven repository cannot be reached"),
        (["something else"], "Ivy failed"),
    ],
)  # fmt: skip
def test_fetch_error_names_the_cause_in_ivys_output(
    repository: Ivy, tmp_path: Path, lines: list[str], words: str
) -> None:
    repository.lines = lines
    assert words in message(tmp_path)


def test_an_artifact_without_a_jar_is_an_error(repository: Ivy, tmp_path: Path) -> None:
    repository.has_jar = False
    assert "org.example:prices:1.0 has no jar" in message(tmp_path)


def test_fetch_without_java_is_an_error(repository: Ivy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> Java:
        raise JavaMissingError("Java 17 or newer is needed")

    monkeypatch.setattr(maven, "find_java", find)
    assert message(tmp_path) == "Java 17 or newer is needed"
