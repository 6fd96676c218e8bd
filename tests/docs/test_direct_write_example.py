"""The README's example of a direct write, run as it is shown."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from page import ROOT, blocks

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from support.quick import spark_properties


def test_the_example_of_a_dataframe_runs_as_it_is_shown(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Without `PYSPARK_PYTHON` in the environment, Spark's workers would be of whatever Python is in the path."""
    [text] = [b.text for b in blocks("python") if b.page == ROOT / "README.md" and 'format("fencepost")' in b.text]
    program = tmp_path / "prices.py"
    program.write_text(text.replace("localhost:9092", kafka.bootstrap_servers))
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.ensure("prices", partitions=1, replication=1)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    python = Path(sys.executable).parent
    # A directory of our own for Spark's settings would be in the class path, which the archive does not fit then.
    given = [word for key, value in spark_properties().items() for word in ("--conf", f"{key}={value}")]
    environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*given, "pyspark-shell"])
    environment["PATH"] = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if Path(p) != python)
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    count = 0

    def take(_record: object) -> None:
        nonlocal count
        count += 1

    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, "prices")
    reader.read_to_end(30, take)
    reader.close()
    assert count == 1_000
