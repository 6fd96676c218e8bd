"""Jars of peers, fetched once per user: those of Spark's own Kafka sink, and whatever else is asked for by name.

There is none for every release of Spark; the versions here are the newest that can be had, and work with ours. Their
own dependencies are left alone: Spark has them.
"""

from collections.abc import Iterable
from pathlib import Path

from fencepost.embedded import home
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java

JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
AVRO = ("org.apache.spark", "spark-avro_2.13", "4.2.0")


def sink_jars(*more: tuple[str, str, str]) -> list[Path]:
    """The files, downloaded where they are missing."""
    return fetched("spark-kafka-sink", (*JARS, *more))


def fetched(name: str, jars: Iterable[tuple[str, str, str]]) -> list[Path]:
    """The files of these coordinates, without what they depend on, in a directory of this name."""
    directory = default_cache() / name
    found = []
    with locked(directory.with_name(f"{directory.name}.lock")):
        for organisation, module, revision in jars:
            path = directory / f"{module}-{revision}.jar"
            if not path.exists():
                _fetch(organisation, module, revision, directory)
            found.append(path)
    return found


def _fetch(organisation: str, module: str, revision: str, directory: Path) -> None:
    pattern = f"{directory}/[artifact]-[revision].[ext]"
    what = ["-notransitive", "-confs", "default", "-dependency", organisation, module, revision]
    home.run(find_java(), [*what, "-retrieve", pattern], f"{module} {revision}")
