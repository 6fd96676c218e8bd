"""What a worker imports before Spark is there: each process that starts pays for it."""

import subprocess
import sys


def test_a_worker_is_up_without_pyspark():
    code = "import sys, fencepost.cli.worker.serve, fencepost.worker.host.driver; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
