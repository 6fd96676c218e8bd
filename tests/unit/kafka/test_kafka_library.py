"""What several threads find that use kafka-python for the first time, at the same moment."""

import re
import subprocess
import sys
from pathlib import Path

import fencepost.kafka

_ALL_AT_ONCE = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor

REQUESTS = [("OffsetFetchRequest", 8), ("DescribeGroupsRequest", 5), ("MetadataRequest", 9), ("ProduceRequest", 9)]
together = threading.Barrier(4 * len(REQUESTS))

def answer_class(name, version):
    together.wait()
    import fencepost.kafka.kafka_library as library
    request = getattr(library, name)(version=version)
    request.with_header(0, "")
    return request.header.get_response_class()()

sys.setswitchinterval(1e-5)
with ThreadPoolExecutor(together.parties) as pool:
    for done in [pool.submit(answer_class, *each) for each in REQUESTS for _ in range(4)]:
        done.result()
"""


def test_message_classes_are_found_when_many_threads_use_them_first() -> None:
    for _ in range(3):
        subprocess.run([sys.executable, "-c", _ALL_AT_ONCE], check=True, timeout=600)


def test_only_one_module_imports_kafka_python() -> None:
    root = Path(fencepost.kafka.__file__).parent
    found = [p.name for p in root.rglob("*.py") if re.search(r"^\s*(from|import) kafka\b", p.read_text(), re.MULTILINE)]
    assert found == ["kafka_library.py"]
