"""Java plug-ins for tests: Kafka's own, by their jars, and those of `java/plugins`, compiled once."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fencepost.builtin.java.host_jar import ensure_runtime
from fencepost.builtin.java.port import JavaClass, Location
from fencepost.embedded.home import KAFKA_VERSION, locked
from fencepost.embedded.java import Java, find_java
from support.java_program import ensure_compiler, kafka_jar

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
    """Put the classes of `java/plugins` into a directory. Skips the test where no compiler is installed."""
    ensure_compiler()
    shutil.copytree(_compiled(), directory, dirs_exist_ok=True)
    return Location(str(directory), (f"{directory}/",))


def _compiled() -> Path:
    """Return where the classes are: the first process that asks compiles them, for as long as their sources stay."""
    java, sources = find_java(), sorted(_SOURCES.rglob("*.java"))
    identity = hashlib.sha256(f"{java.path.resolve()} {java.version} {KAFKA_VERSION}".encode())
    for source in sources:
        identity.update(source.read_bytes())
    classes = Path(sys.prefix, "java-plugins", identity.hexdigest()[:12])
    with locked(classes.parent.with_suffix(".lock")):
        if not classes.exists():
            for older in classes.parent.glob("*"):
                shutil.rmtree(older)
            fresh = classes.with_suffix(".new")
            _compile(java, sources, fresh)
            fresh.rename(classes)
    return classes


def _compile(java: Java, sources: Sequence[Path], directory: Path) -> None:
    classpath = os.pathsep.join(map(str, ensure_runtime(java)))
    compiler = [str(java.path), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "17"]
    command = [*compiler, "-proc:none", "-d", str(directory), "-cp", classpath, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def with_transforms(**transforms: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of transforms by their aliases; their settings have _ for a dot."""
    found = {"transforms": ",".join(transforms)}
    for alias, settings in transforms.items():
        found |= {f"transforms.{alias}.{key.replace('_', '.')}": str(value) for key, value in settings.items()}
    return found
