"""Arguments for the JVM are looked at without numpy and pandas, unless they are numpy's."""

import os
import subprocess
import sys
from pathlib import Path

# Not installed here; a stand-in has as much of it as PySpark asks for.
_NUMPY = """
class generic: ...
class ndarray: ...
class int64(generic):
    def __init__(self, value): ...
"""

_SCRIPT = """
import sys
from py4j import protocol
from fencepost.spark.session.pyspark_patches import ask_numpy_only_for_its_own

ask_numpy_only_for_its_own()
ask_numpy_only_for_its_own()
plain = [c for c in protocol.INPUT_CONVERTER if c.can_convert("text")]
assert not plain, plain
assert not {"numpy", "pandas"} & set(sys.modules), "imported for a text"

import numpy

assert [c for c in protocol.INPUT_CONVERTER if c.can_convert(numpy.int64(1))], "no longer converted"
"""


def test_numpy_is_imported_only_for_numpy_values(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text(_NUMPY)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
