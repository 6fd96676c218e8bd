"""Kafka Connect's jars, fetched once per user by coordinates, and the command that runs its distributed worker."""

import os
from collections.abc import Sequence
from pathlib import Path

from fencepost.embedded import KAFKA_VERSION, ivy
from fencepost.embedded.home import default_cache, ensure_home, locked
from fencepost.embedded.java import find_java

MODULES = ("connect-runtime", "connect-file", "connect-json", "connect-transforms", "connect-test-plugins")
_EXPECTED_JARS = 60

# The heap of Kafka's own connect-distributed.sh. Of the collectors the parallel one: on two cores it let Kafka Connect
# move a tenth to a fifth more than the script's G1.
JVM = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseParallelGC", "-Djava.awt.headless=true")

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
    directory = default_cache() / f"connect-{KAFKA_VERSION}"
    with locked(directory.with_name(f"{directory.name}.lock")):
        for module in MODULES:
            if not (directory / f"{module}-{KAFKA_VERSION}.jar").exists():
                ivy.retrieve(java, ("org.apache.kafka", module, KAFKA_VERSION), directory, expected_jars=_EXPECTED_JARS)
    connect = sorted(jar for jar in directory.glob("*.jar") if not jar.name.startswith("slf4j"))
    broker = [jar for jar in home.jars if jar.name.startswith("log4j")]
    return os.pathsep.join(str(jar) for jar in (*home.logging_jars, *broker, *connect))


def command(properties: Path, log: Path, jvm: Sequence[str] = JVM) -> list[str]:
    """What starts a distributed worker with the file `properties`; it logs to `log`."""
    logging = properties.with_suffix(".log4j2.properties")
    logging.write_text(_LOGGING.format(log=log))
    options = [*jvm, f"-Dlog4j2.configurationFile={logging}"]
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return [str(find_java().path), *options, "-cp", classpath(), main, str(properties)]
