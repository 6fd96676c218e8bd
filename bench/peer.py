"""Kafka Connect's jars and MirrorMaker's, fetched once per user by coordinates, and the command that runs them."""

import os
from collections.abc import Sequence
from pathlib import Path

from fencepost.embedded import KAFKA_VERSION, checksum
from fencepost.embedded.home import ensure_home, ensure_jars
from fencepost.embedded.java import Java, find_java

MODULES = (
    "connect-runtime",
    "connect-file",
    "connect-json",
    "connect-transforms",
    "connect-test-plugins",
    "connect-mirror",
)
_LISTED = Path(__file__).with_name("peer.sha256")

DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"

# The heap of Kafka's own connect-distributed.sh. Of the collectors the parallel one: on two cores it let Kafka Connect
# move a tenth to a fifth more than the script's G1.
JVM = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseParallelGC", "-Djava.awt.headless=true")
# For whoever starts it to see what it does, and not how fast.
SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_LOGGING = """\
status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c{{1}} - %m%n
rootLogger.level=INFO
rootLogger.appenderRef.file.ref=file
"""


def classpath() -> str:
    """Kafka Connect's jars, fetched the first time, with the log4j that the broker is run with."""
    java = find_java()
    home = ensure_home(java)
    connect = [jar for jar in _jars(java) if not jar.name.startswith("slf4j")]
    broker = [jar for jar in home.jars if jar.name.startswith("log4j")]
    return os.pathsep.join(str(jar) for jar in (*home.logging_jars, *broker, *connect))


def command(main: str, properties: Path, log: Path, jvm: Sequence[str] = JVM) -> list[str]:
    """What runs the class `main` with the file `properties`; it logs to `log`."""
    logging = properties.with_suffix(".log4j2.properties")
    logging.write_text(_LOGGING.format(log=log))
    options = [*jvm, f"-Dlog4j2.configurationFile={logging}"]
    return [str(find_java().path), *options, "-cp", classpath(), main, str(properties)]


def jar(module: str) -> Path:
    """One of Kafka Connect's jars, such as that of `connect-file`."""
    return next(each for each in _jars(find_java()) if each.name == f"{module}-{KAFKA_VERSION}.jar")


def _jars(java: Java) -> list[Path]:
    """The listed jars. JarError where they cannot be fetched, or are others."""
    return ensure_jars(java, f"connect-{KAFKA_VERSION}", MODULES, checksum.listed(_LISTED.read_text(encoding="ascii")))
