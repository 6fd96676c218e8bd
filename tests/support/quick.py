"""What makes the JVMs of tests cheap: most of them live for seconds, in which they do little but start.

Kafka and Spark themselves are the real ones. The JVM compiles their code once, by its quick compiler, and Spark's
classes come from a worker's archive, as Kafka's do always: a Spark that starts, and makes a session, takes half of the
processor time. The archive is made by `make test`, or by the first test that needs it.
"""

import functools
import shlex
from typing import Any

from fencepost.embedded import EmbeddedKafka
from fencepost.spark.session import conf
from fencepost.spark.session.archive_making import ensure_archive
from fencepost.spark.session.jvm import archive_options

QUICK = "-XX:TieredStopAtLevel=1"
LENT = "FENCEPOST_TESTS_KAFKA"
"""The environment's variable for a broker that is there already: tests that run pytest lend theirs to it."""

_OPTIONS = "spark.driver.extraJavaOptions"


class _Discarded(EmbeddedKafka):
    """A broker that is killed at its end: with the topics of many tests a graceful stop takes the 15 s that it gets."""

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.stop()


def quick_kafka(**how: Any) -> EmbeddedKafka:
    """Return an `EmbeddedKafka`, not started, made with `how`, whose JVM is quick to start.

    It is stopped gracefully at its end if a directory is given, whose data outlive it.
    """
    kind = EmbeddedKafka if "dir" in how else _Discarded
    return kind(jvm_options=[QUICK], **how)


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
    ensure_archive()
    return shlex.join([QUICK, *archive_options(conf.spark_properties({}))])
