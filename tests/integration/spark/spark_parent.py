"""A driver to be killed: starts Spark with one slot, says who is who, and waits.

usage: spark_parent.py FILE_OF_THE_SLOT
"""

import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import slot_entry

from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.slot.job import SlotJobs
from fencepost.testing import eventually
from support.quick import spark_properties


def main(file: Path) -> None:
    runtime = SparkRuntime(spark_properties(), py_files=[slot_entry.__file__])
    runtime.start()
    jobs = SlotJobs(runtime, slot_entry.run, lambda slot_id, error: None)
    jobs.launch("s", json.dumps({"file": str(file)}))
    eventually(lambda: file.read_text().endswith("\n"))
    print(runtime.jvm_pid, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
