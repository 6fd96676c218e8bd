"""Without a JDK, or without any Java: a clear error where a Java class is asked for, and all else works."""

import os
import shutil
from pathlib import Path

import psutil
import pytest

from fencepost.builtin.java import host_jar
from fencepost.builtin.java.error import JavaUnavailableError
from fencepost.builtin.java.port import HostOptions, JavaClass
from fencepost.builtin.java.start import start_host
from fencepost.config import ConfigError
from fencepost.embedded.java import INSTALL_COMMAND, Java, find_java
from fencepost.plugin import PluginKind, PluginRegistry
from support.jars import SOURCE, write_jar

PRICES = "org.example.PriceSourceConnector"
_JRE = """#!/bin/sh
case "$*" in *jdk.compiler*)
    echo "java.lang.module.FindException: Module jdk.compiler not found" >&2
    exit 1
esac
exec {real} --limit-modules java.se,jdk.unsupported,jdk.net "$@"
"""


@pytest.fixture
def jre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """This machine's Java without its compiler, as a JRE is, found by JAVA_HOME."""
    real = shutil.which(str(find_java().path))
    launcher = tmp_path / "jre" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_JRE.format(real=real))
    launcher.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jre"))
    return find_java()


def test_host_jar_cannot_be_built_with_a_jre_and_the_error_names_the_package(
    jre: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_jar, "JAR", tmp_path / "host.jar")
    with pytest.raises(JavaUnavailableError, match=rf"{jre.path} has no compiler: apt-get install -y openjdk-17-jdk"):
        start_host(HostOptions())
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".jar"] == []


def test_only_java_classes_are_refused_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are found all the same, and so is everything in Python."""
    write_jar(tmp_path / "prices" / "prices.jar", {SOURCE: [PRICES]})
    (tmp_path / "fp_no_jdk.py").write_text(
        "from fencepost.api import Record, Transform\n\n\n"
        "class Keep(Transform):\n    def apply(self, record: Record) -> Record:\n        return record\n"
    )
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    registry = PluginRegistry([str(tmp_path)])
    connector = registry.find(PluginKind.CONNECTOR, PRICES)
    with pytest.raises(ConfigError, match=f"Java 17 or newer is needed.*no java was found: {INSTALL_COMMAND}"):
        connector.settings()
    assert registry.find(PluginKind.CONNECTOR, "FileStreamSource").settings()
    assert registry.find(PluginKind.TRANSFORM, "Keep")
    assert PRICES in registry.names(PluginKind.CONNECTOR)
    listed = {one.class_name: one.version for one in registry.all_plugins()}
    assert listed[PRICES] is None
    assert registry.failures() == ()


def test_host_runs_on_a_jre_when_its_jar_exists(jre: Java, tmp_path: Path) -> None:
    assert host_jar.JAR.exists()
    with start_host(HostOptions()) as host:
        assert host.ask.describe(JavaClass("org.apache.kafka.connect.transforms.HoistField$Value")).version
        assert "--limit-modules" in psutil.Process(host.pid).cmdline()
