"""What makes the JVMs of tests cheap: most of them live for seconds, in which they do little but start.

Kafka and Spark themselves are the real ones. The JVM compiles their code once, by its quick compiler, and Spark's
classes come from an archive (AppCDS) as Kafka's do always: a Spark that starts, and makes a session, takes half of the
processor time. The archive is made by `make test`, or by the first test that needs it, in the virtual environment.

An optimisation and nothing more: where an archive cannot be made or does not fit, the JVM starts without it.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.java import find_java
from fencepost.spark.session.command import spark_home
from fencepost.spark.session.jvm import DriverJvm

QUICK = "-XX:TieredStopAtLevel=1"
LENT = "FENCEPOST_TESTS_KAFKA"
"""The environment's variable for a broker that is there already: tests that run pytest lend theirs to it."""

_OPTIONS = "spark.driver.extraJavaOptions"
_MAKING_S = 150  # half of what the test has in which it is made


def quick_kafka(**how: Any) -> EmbeddedKafka:
    """Return an `EmbeddedKafka`, not started, made with `how`, whose JVM is quick to start."""
    return EmbeddedKafka(jvm_options=[QUICK], **how)


class LentKafka:
    """The broker of another run of tests, at an address. It can be talked to, and nothing else."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers


def spark_properties() -> dict[str, str]:
    """Return the `spark.*` with which Spark's JVMs are quick to start."""
    return {_OPTIONS: spark_options(), "spark.executor.extraJavaOptions": f"-XX:+UseSerialGC {spark_options()}"}


@functools.cache
def spark_options() -> str:
    """Return the options of a JVM of Spark that is quick to start; the archive is made now if there is none yet."""
    archive = _path()
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    # An empty file stands for "could not be made": not tried again by every test.
    shared = f" -Xshare:auto -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.stat().st_size else ""
    return QUICK + shared


def _path() -> Path:
    """An archive fits one build of Java and one class path, in the order in which the launcher finds it.

    It is made again when this file changes, which says what is in it.
    """
    home, java = spark_home(), find_java()
    identity = f"{java.path.resolve()} {java.version} {home} {os.listdir(home / 'jars')} "
    identity += Path(__file__).read_text()
    return Path(sys.prefix, f"spark-classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa")


def _make(archive: Path) -> None:
    for older in archive.parent.glob("spark-classes-*.jsa"):
        older.unlink()
    fresh = archive.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    command = [sys.executable, "-m", "support.quick", str(fresh)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, env=env, timeout=_MAKING_S, capture_output=True, check=False)
    fresh.touch()
    fresh.rename(archive)


def main(archive: str) -> None:
    """Start Spark, have it do a little of everything, and end its JVM in good order, which writes the archive."""
    from fencepost.spark.session.session import SparkRuntime  # which imports PySpark

    jvm = DriverJvm({_OPTIONS: f"{QUICK} -XX:ArchiveClassesAtExit={archive} -Xlog:disable"}, on_line=lambda line: None)
    runtime = SparkRuntime({}, jvm=jvm)
    runtime.start()
    runtime.context.parallelize([1], 1).map(lambda n: n + 1).collect()
    with tempfile.TemporaryDirectory(dir=Path(archive).parent) as directory:
        _read_and_write(runtime.session, directory)
    runtime.context.stop()
    assert jvm.process.stdin is not None
    jvm.process.stdin.close()
    jvm.process.wait()
    runtime.stop()


def _read_and_write(session: Any, directory: str) -> None:
    """Use the formats and operators that most tests of DataFrames use: their classes are in the archive then."""
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
    main(sys.argv[1])
