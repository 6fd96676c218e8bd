"""What Spark's JVM and Python workers print."""

import os

from fencepost.spark.session.output import Output
from fencepost.telemetry.secret import remember
from fencepost.testing import eventually


def test_lines_are_passed_on_without_secrets() -> None:
    remember("correct horse")
    lines: list[str] = []
    output = Output(lines.append)
    with output.pipe() as descriptor:
        os.write(descriptor, b"no correct horse\nUsing incubator modules: x\nlast\n")
    eventually(lambda: lines == ["no [hidden]", "last"], within_s=10)
    assert output.tail() == "no [hidden]\nlast"
