"""Arguments for the JVM are looked at without numpy and pandas, unless they are numpy's."""

import subprocess
import sys

_SCRIPT = """
import sys
from py4j import protocol
from fencepost.spark.numpy_values import ask_numpy_only_for_its_own

ask_numpy_only_for_its_own()
ask_numpy_only_for_its_own()
plain = [c for c in protocol.INPUT_CONVERTER if c.can_convert("text")]
assert not plain, plain
assert not {"numpy", "pandas"} & set(sys.modules), "imported for a text"

import numpy

assert [c for c in protocol.INPUT_CONVERTER if c.can_convert(numpy.int64(1))], "no longer converted"
"""


def test_numpy_is_imported_by_nobody_but_its_user() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
