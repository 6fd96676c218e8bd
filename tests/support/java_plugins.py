"""Java plug-ins for tests: Kafka's own, by their jars, and those of `java/plugins`, compiled once a run."""

import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fencepost.embedded.java import find_java
from fencepost.java.port import JavaClass, Location
from fencepost.java.runtime import ensure_runtime
from support.java_program import kafka_jar

_SOURCES = Path(__file__).with_name("java") / "plugins"
STRING = "org.apache.kafka.connect.storage.StringConverter"
CONVERTERS = {
    "key.converter": STRING,
    "value.converter": STRING,
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}


@cache
def kafka_plugin(module: str) -> Location:
    """Return one of Kafka's plug-ins: `connect-file` or `connect-test-plugins`."""
    jar = str(kafka_jar(module))
    return Location(jar, (jar,))


def file_class(name: str) -> JavaClass:
    """Return a class of `connect-file`, such as `FileStreamSourceTask`."""
    return JavaClass(f"org.apache.kafka.connect.file.{name}", kafka_plugin("connect-file"))


def tool_class(name: str) -> JavaClass:
    """Return a class of `connect-test-plugins`, such as `VerifiableSourceTask`."""
    return JavaClass(f"org.apache.kafka.connect.tools.{name}", kafka_plugin("connect-test-plugins"))


def compile_plugins(directory: Path) -> Location:
    """Compile the plug-ins of `java/plugins` into a directory."""
    classpath = os.pathsep.join(map(str, ensure_runtime(find_java())))
    sources = sorted(str(path) for path in _SOURCES.rglob("*.java"))
    compiler = [str(find_java().path), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "17"]
    command = [*compiler, "-proc:none", "-d", str(directory), "-cp", classpath, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Location(str(directory), (f"{directory}/",))


def with_transforms(**transforms: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of transforms by their aliases; their settings have _ for a dot."""
    found = {"transforms": ",".join(transforms)}
    for alias, settings in transforms.items():
        found |= {f"transforms.{alias}.{key.replace('_', '.')}": str(value) for key, value in settings.items()}
    return found
