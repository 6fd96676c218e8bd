"""The memory of a process that runs tasks: one heap, and what is free goes back. Each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the options are glibc's")

_GIVEN_BACK = """
import psutil
from fencepost.telemetry.measure import Garbage
from fencepost.telemetry.measure import share_a_heap

def resident():
    return psutil.Process().memory_info().rss >> 20

share_a_heap()
now_s = [0.0]
garbage = Garbage(lambda: now_s[0])
before = resident()
pieces = [b"x" * 200_000 for _ in range(1_000)]  # such are given back at once, one by one, unless told otherwise
del pieces
kept = resident() - before
now_s[0] = 10.0
garbage.collect_if_due()
print(kept, resident() - before)
"""

_POOL = """
from fencepost.spark.session import daemon
import importlib, sys
daemon.give_back = lambda: print("given back", end=" ")
sys.argv = ["daemon", "pyspark.worker"]
importlib.import_module("pyspark.daemon").manager = lambda: None
daemon.main()
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""

_ONE_HEAP = """
import ctypes, threading
from fencepost.telemetry.measure import share_a_heap

share_a_heap()

def heaps():
    libc = ctypes.CDLL(None)
    libc.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    return ctypes.string_at(text.value, size.value).count(b"<heap nr")

barrier = threading.Barrier(4)

def work():
    bytes(100_000)
    barrier.wait()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(heaps())
"""


def said(program: str, **environment: str) -> list[str]:
    source = str(Path(__file__).parents[4] / "src")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": source, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_free_memory_is_returned_when_garbage_is_collected() -> None:
    kept, left = map(int, said(_GIVEN_BACK))
    assert kept > 150
    assert left < 50


def test_threads_share_one_heap() -> None:
    assert said(_ONE_HEAP) == ["1"]


def test_spark_workers_use_the_system_memory_pool_of_arrow() -> None:
    assert said(_POOL) == ["given", "back", "system"]


def test_a_pool_that_the_environment_names_is_kept() -> None:
    assert said(_POOL, ARROW_DEFAULT_MEMORY_POOL="mimalloc") == ["given", "back", "mimalloc"]
