"""MongoDB's plug-in for Kafka Connect, and a server in memory that speaks its protocol."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fencepost.embedded.java import find_java
from support.java_program import ensure_compiler
from support.maven_plugin import plugin

MONGO = "2.0.1"
_SERVER = "1.47.0"
_PROGRAM = Path(__file__).with_name("java") / "MongoStore.java"


def mongo(plugin_path: Path) -> Path:
    """Put MongoDB's plug-in into a directory of `plugin.path`, and return its own directory."""
    return plugin("org.mongodb.kafka", ("mongo-kafka-connect",), MONGO, plugin_path)


class MongoStore:
    """A server that runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.uri = f"mongodb://127.0.0.1:{int(self._line())}"

    def documents(self, database: str, collection: str) -> list[Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{database} {collection}\n")
        self._process.stdin.flush()
        found: list[Any] = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has ended"
        return line


@contextmanager
def running_mongo(directory: Path, plugin_directory: Path) -> Iterator[MongoStore]:
    """Run a server, with the client of the plug-in for questions; its jars are put into `directory`."""
    ensure_compiler()
    jars = plugin("de.bwaldvogel", ("mongo-java-server",), _SERVER, directory)
    classpath = os.pathsep.join((f"{jars}/*", f"{plugin_directory}/*"))
    command = [str(find_java().path), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", classpath, str(_PROGRAM)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield MongoStore(process)
        finally:
            process.kill()
