"""Java plug-ins for both sides, in the layout of Kafka Connect's `plugin.path`."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import peer
from fencepost.embedded.java import find_java

_SOURCES = Path(__file__).with_name("java")
_SERVICES = {
    "source": "org.apache.kafka.connect.source.SourceConnector",
    "sink": "org.apache.kafka.connect.sink.SinkConnector",
}

SOURCE, SINK = "JavaFileSource", "JavaFileSink"


def compiled(directory: Path, classes: Mapping[str, str]) -> Path:
    """Compile connectors of `bench/java` into a directory, which is returned; `classes` are their names and kinds."""
    services = directory / "META-INF" / "services"
    services.mkdir(parents=True)
    for kind, service in _SERVICES.items():
        names = [name for name, its_kind in classes.items() if its_kind == kind]
        if names:
            (services / service).write_text("".join(f"{name}\n" for name in names))
    compiler = [str(find_java().path), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    sources = [str(_SOURCES / f"{name}.java") for name in classes]
    subprocess.run([*compiler, "-proc:none", "-cp", peer.classpath(), "-d", str(directory), *sources], check=True)
    return directory


def file_plugin(plugin_path: Path) -> None:
    """Add Kafka's file connectors under the names SOURCE and SINK: the plug-in that both sides race with."""
    plugin = plugin_path / "java-file"
    classes = compiled(plugin_path.with_name(f"{plugin_path.name}-classes"), {SOURCE: "source", SINK: "sink"})
    plugin.mkdir(parents=True)
    shutil.make_archive(str(plugin / "names"), "zip", classes)
    (plugin / "names.zip").rename(plugin / "names.jar")
    shutil.copy(peer.jar("connect-file"), plugin)


def plugin_of(plugin_path: Path, name: str, jars: Sequence[Path]) -> None:
    """Add a plug-in that is these jars."""
    (plugin_path / name).mkdir(parents=True)
    for jar in jars:
        shutil.copy(jar, plugin_path / name)
