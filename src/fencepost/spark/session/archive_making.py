"""Makes the archive of Spark's classes: once for each user, in a process of its own (docs/decisions/0086).

Run as a module, it makes the archive if there is none. Another process that wants one at the same time waits for it.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.process import GuardedProcess
from fencepost.spark.session import SparkError
from fencepost.spark.session.conf import spark_properties
from fencepost.spark.session.jvm import JAVA_OPTIONS, DriverJvm, can_use_archive, class_archive

_COMMAND = [sys.executable, "-m", "fencepost.spark.session.archive_making"]
_LOWEST_PRIORITY = 19
_DUMP_S = 300.0
_MEMORY = "512m"
_ROOM_BYTES = 2 << 30
_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


class LateArchive:
    """Makes the archive some time after a worker has started, if there is none, and memory for a second Spark.

    The process that makes it has the lowest priority, and ends with the worker at the latest.
    """

    def __init__(self, properties: Mapping[str, str], after_s: float = 60.0) -> None:
        """Begin in `after_s` seconds, in a thread; `properties` are the user's `spark.*`."""
        self._properties = spark_properties(properties)
        self._process: GuardedProcess | None = None
        self._is_cancelled = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(after_s, self.begin)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Begin no more; end the process that makes the archive."""
        self._timer.cancel()
        with self._lock:
            self._is_cancelled = True
            if self._process is not None:
                self._process.kill()

    @property
    def is_making(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    def begin(self) -> None:
        """Start to make the archive, if one is needed and can be made. Called once, by the timer."""
        with contextlib.suppress(EmbeddedKafkaError, OSError), self._lock:
            is_wanted = can_use_archive(self._properties) and not class_archive().is_settled() and has_room()
            if is_wanted and not self._is_cancelled:
                self._process = GuardedProcess([*_COMMAND, str(_LOWEST_PRIORITY)], Path(os.devnull))


def ensure_archive() -> None:
    """Make the archive now if there is none. Takes half a minute, and longer on a busy machine."""
    with contextlib.suppress(EmbeddedKafkaError, OSError):
        if not class_archive().is_settled():
            subprocess.run(_COMMAND, capture_output=True, check=False)


def has_room() -> bool:
    """Return whether the machine, and the container if this is one, have 2 GiB of memory left: four times the need."""
    try:
        words = Path("/proc/meminfo").read_text().split()
        free = [int(words[words.index("MemAvailable:") + 1]) << 10]
        for limit, used in _LIMITS:
            if Path(limit).exists() and (most := Path(limit).read_text().strip()) != "max":
                free.append(int(most) - int(Path(used).read_text()))
    except (OSError, ValueError):
        return False
    return min(free) >= _ROOM_BYTES


def main(niceness: int = 0) -> None:
    """Make the archive unless there is one."""
    os.nice(niceness)
    class_archive().make(_train)


def _train(fresh: Path) -> None:
    """Start Spark, use what workers use, and end its JVM in good order, which writes the archive."""
    from fencepost.spark.session.session import SparkRuntime  # imports PySpark

    options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={fresh} -Xlog:disable"
    properties = {JAVA_OPTIONS: options, "spark.driver.memory": _MEMORY}
    jvm = DriverJvm(properties, on_line=lambda line: None)
    runtime = SparkRuntime({}, jvm=jvm)
    runtime.start()
    runtime.context.parallelize([1], 1).map(lambda n: n + 1).collect()
    with tempfile.TemporaryDirectory() as directory:
        _read_and_write(runtime.session, directory)
    runtime.context.stop()
    assert jvm.process.stdin is not None
    jvm.process.stdin.close()
    code = jvm.process.wait(_DUMP_S)
    runtime.stop()
    if code != 0:
        raise SparkError(f"the JVM that writes the archive of Spark's classes ended with exit code {code}")


def _read_and_write(session: Any, directory: str) -> None:
    """Use the formats and operators that DataFrame connectors mostly use."""
    csv, parquet, json = (f"{directory}/{name}" for name in ("a.csv", "parquet", "json"))
    Path(csv).write_text("a,b\n1,2\n3,4\n")
    frame = session.read.csv(csv, header=True, inferSchema=True).selectExpr("a + b AS c")
    frame.write.parquet(parquet)
    session.read.parquet(parquet).selectExpr("c", "c AS p").write.partitionBy("p").json(json)
    counted = session.read.schema("c INT").json(json).groupBy("c").count().orderBy("c")
    counted.union(session.range(2).selectExpr("id AS c", "id AS count")).toArrow()
    frame.selectExpr("to_json(struct(c)) AS c").collect()
    session.createDataFrame([(1, "a")], "n INT, s STRING").createOrReplaceTempView("shown")
    session.sql("SELECT s, from_json(s, 'n INT') AS j FROM shown WHERE n = 1").collect()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
