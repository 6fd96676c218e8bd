"""The README's example of a streaming query, run as it is shown."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from page import ROOT, blocks

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import CommittedReader
from support.quick import spark_properties
from support.spark_python import with_sparks_python


@pytest.mark.drawn(8)
@pytest.mark.timeout(3600)  # at ten times the load
def test_streaming_query_of_the_readme_writes_each_line_once(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Without `PYSPARK_PYTHON` in the environment, Spark's workers would be of whatever Python is in the path."""
    [text] = [b.text for b in blocks("python") if b.page == ROOT / "README.md" and 'format("fencepost")' in b.text]
    program = tmp_path / "shout.py"
    text = text.replace("localhost:9092", kafka.bootstrap_servers)
    for topic in ("lines", "shouted"):  # other pages have topics of these names
        text = text.replace(f'"{topic}"', f'"readme-{topic}"')
    program.write_text(text)
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for topic in ("readme-lines", "readme-shouted"):
        admin.topics.ensure(topic, partitions=1, replication=1)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    python = Path(sys.executable).parent
    # A directory of our own for Spark's settings would be in the class path, which the archive does not fit then.
    given = [word for key, value in spark_properties().items() for word in ("--conf", f"{key}={value}")]
    environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*given, "pyspark-shell"])
    environment["PATH"] = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if Path(p) != python)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    with CommittedReader(kafka.bootstrap_servers, ["readme-shouted"]) as shouted:
        for lines in (["one", "two"], ["three"]):
            for line in lines:
                producer.produce("readme-lines", line)
            producer.flush()
            with_sparks_python(lambda: _run(program, environment))
        assert [record.value for record in shouted.read_all()] == [b"ONE", b"TWO", b"THREE"]


def _run(program: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=program.parent, env=environment, text=True, capture_output=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
