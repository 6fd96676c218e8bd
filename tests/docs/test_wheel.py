"""The wheel that users install, and the quick start of the README from it, as somebody who may write in /tmp only."""

import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from page import ROOT, blocks

from fencepost.embedded.home import default_cache, ensure_home
from fencepost.embedded.java import find_java
from fencepost.guide import SITE
from fencepost.testing import eventually
from support.installation import add_extra, build, build_wheel, confined, install_as_typed, why_not_confined
from support.quick import QUICK
from support.worker import free_port

pytestmark = pytest.mark.drawn(8)  # test_retyped.py has the quick start, too
_WITHIN_S = 240
_SIZE_LIMIT = 8_000_000  # bytes, of which 3 million are pages: one more Spark or broker would be more


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built() -> Iterator[Built]:
    with tempfile.TemporaryDirectory() as directory:
        yield Built(*build(Path(directory)))


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory of which everybody may read and write: pytest's own is root's."""
    with tempfile.TemporaryDirectory(prefix="fencepost-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


def test_the_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
        jar = wheel.read("fencepost/builtin/java/host.jar") if "fencepost/builtin/java/host.jar" in names else b""
    version = built.wheel.name.split("-")[1]
    made = {"fencepost/builtin/java/host.jar", *_site()}
    assert {name for name in names if ".dist-info/" not in name} == _sources() | made
    assert jar == (ROOT / "src/fencepost/builtin/java/host.jar").read_bytes()
    assert f"fencepost-{version}.dist-info/licenses/LICENSE" in names
    assert built.wheel.stat().st_size < _SIZE_LIMIT


def test_the_sdist_gives_the_same_wheel_where_there_is_no_git(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as sdist:
        sdist.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    assert {path.name for path in source.iterdir()} >= {"src", "pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
    assert not (source / "tests").exists()
    again = build_wheel(source, tmp_path / "dist")
    assert (again.name, again.read_bytes()) == (built.wheel.name, built.wheel.read_bytes())


def test_the_description_of_the_wheel_links_only_into_the_wheel(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        _, _, shown = wheel.read(name).decode().partition("\n\n")
    targets = re.findall(r"\]\(([^)]*)\)", shown)
    assert [target for target in targets if "://" not in target] == []
    assert "![" not in shown
    named = set(re.findall(r"`fencepost docs ([\w/-]+)", shown))
    assert {"how-to/install", "project/CHANGELOG"} <= named
    assert [page for page in named if not _is_page(page)] == []


def test_the_quick_start_runs_from_the_wheel_where_only_tmp_can_be_written(
    built: Built, public_directory: Path
) -> None:
    """Where the tests may not change rights and mounts, it runs as whoever runs the tests."""
    prefix = public_directory / "pipelines/.venv"
    [text] = [block.text for block in _quick_start("make dist")]
    assert text in (ROOT / "docs/how-to/install.md").read_text()
    install_as_typed(text, built.wheel.parent, public_directory)
    assert not list(prefix.glob("lib/*/site-packages/joserfc"))
    add_extra("oidc", prefix)
    assert list(prefix.glob("lib/*/site-packages/joserfc"))
    user = _User(public_directory, prefix)
    assert user.runs([str(prefix / "bin/fencepost"), "--version"]) == built.wheel.name.split("-")[1] + "\n"
    with user.dev() as process:
        user.types("printf 'one")
        user.reads(["one", "two", "three"])
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, user.log.read_text()[-3000:]


def test_a_confined_process_cannot_write_outside_tmp(public_directory: Path) -> None:
    if reason := why_not_confined():
        pytest.skip(reason)
    prefix = public_directory / "prefix"
    prefix.mkdir(mode=0o777)
    attempts = f"touch {public_directory}/mine && id -u; touch {prefix}/mine /usr/mine /var/tmp/mine {ROOT}/mine"
    done = subprocess.run(confined(prefix, ["sh", "-c", attempts]), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr.count("touch: cannot touch")) == ("65534\n", 4), done.stderr


def _is_page(name: str) -> bool:
    beside = ROOT / f"{name.removeprefix('project/')}.md"
    return (ROOT / f"docs/{name}.md").exists() or (ROOT / f"docs/{name}/README.md").exists() or beside.exists()


class _User:
    """Somebody who types the quick start in a directory below `/tmp`, which is their home."""

    def __init__(self, home: Path, prefix: Path) -> None:
        self.home, self.prefix, self.log = home, prefix, home / "dev.log"
        self.port, self.kafka_port = free_port(), free_port()
        self._is_confined = why_not_confined() is None
        kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "LANG") if key in os.environ}
        url = f"http://127.0.0.1:{self.port}"
        self._environment = {**kept, "HOME": str(home), "TMPDIR": str(home), "FENCEPOST_URL": url}
        kafka = ensure_home(find_java()).directory
        leave = shutil.ignore_patterns("*.jsa", ".*")  # an archive of classes fits one path
        copy = home / ".cache/fencepost" / kafka.relative_to(default_cache())
        shutil.copytree(kafka, copy, ignore=leave)  # root's: no time is spent on a new archive

    def runs(self, command: list[str]) -> str:
        done = subprocess.run(self._command(command), cwd=self.home, env=self._environment, text=True,
                              capture_output=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def dev(self) -> subprocess.Popen[bytes]:
        """Start what the README says, with other ports."""
        [text] = [block.text for block in _quick_start(".venv/bin/fencepost dev\n")]
        command = [str(self.prefix / "bin/fencepost"), *text.split()[1:], f"--port={self.port}"]
        command += [f"--kafka-port={self.kafka_port}", "--set", f"spark.driver.extraJavaOptions={QUICK}"]
        with self.log.open("wb") as out:
            process = subprocess.Popen(self._command(command), cwd=self.home, env=self._environment, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            eventually(lambda: self._is_healthy() or process.poll() is not None, within_s=_WITHIN_S)
            assert process.poll() is None, self.log.read_text()[-3000:]
        except BaseException:
            process.kill()
            raise
        return process

    def types(self, beginning: str) -> None:
        [text] = [block.text for block in _quick_start(beginning)]
        self.runs(["bash", "-eo", "pipefail", "-c", self._here(text)])

    def reads(self, expected: list[str]) -> None:
        """Run the README's command until it has shown these values."""
        [text] = [block.text for block in _quick_start("topic read lines")]
        words = [str(self.prefix / "bin/fencepost"), *text.split()[1:]]
        with subprocess.Popen(self._command(words), cwd=self.home, env=self._environment, text=True,
                              stdout=subprocess.PIPE) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                shown = (line for line in process.stdout if line.startswith("  value  "))
                assert [next(shown) for _ in expected] == [f"  value  {value}\n" for value in expected]
            finally:
                process.kill()

    def _command(self, command: list[str]) -> list[str]:
        return confined(self.prefix, command) if self._is_confined else command

    def _here(self, text: str) -> str:
        changes = {":8083": f":{self.port}", ":9092": f":{self.kafka_port}", "/tmp/": f"{self.home}/"}
        return re.sub("|".join(changes), lambda found: changes[found[0]], text)

    def _is_healthy(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health").status_code == 200
        except httpx.TransportError:
            return False


def _sources() -> set[str]:
    """Return what Git knows of the package, or would take."""
    command = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "src/fencepost",
        "src/pyspark_fencepost",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Git does not tell what belongs to the package: {done.stderr}")
    return {name.removeprefix("src/") for name in done.stdout.splitlines() if (ROOT / name).exists()}


def _site() -> set[str]:
    """Return the files of the documentation, which `make check` and `make dist` build."""
    package = ROOT / "src"
    return {str(path.relative_to(package)) for path in SITE.rglob("*") if path.is_file()}


def _quick_start(beginning: str) -> list:  # type: ignore[type-arg]
    return [block for block in blocks("bash") if block.page == ROOT / "README.md" and beginning in block.text]
