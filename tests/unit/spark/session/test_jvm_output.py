"""What Spark's JVM and Python workers print."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from fencepost.secret.known import remember
from fencepost.spark.session.jvm import Output
from fencepost.testing import eventually


def test_lines_are_passed_on_without_secrets() -> None:
    remember("correct horse")
    lines: list[str] = []
    output = Output(lines.append)
    with output.pipe() as descriptor:
        os.write(descriptor, b"no correct horse\nUsing incubator modules: x\nlast\n")
    eventually(lambda: lines == ["no [hidden]", "last"], within_s=60)
    assert output.tail() == "no [hidden]\nlast"


def test_tail_has_the_last_output_of_the_jvm_even_if_read_late() -> None:
    may_read = threading.Event()
    output = Output(lambda _: may_read.wait(60) and None)
    with output.pipe() as descriptor:
        os.write(descriptor, b"first\nthe reason\n")
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(output.tail)
        eventually(lambda: end.running() or end.done(), within_s=30)
        may_read.set()
        assert end.result() == "first\nthe reason"
