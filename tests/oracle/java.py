"""Runs a program of Java over cases, a line for each, and keeps the cases with their answers."""

import gzip
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.embedded.java import find_java

Case = dict[str, Any]


def answers(program: Path, classpath: str, cases: Sequence[Case]) -> list[Case]:
    """Return the answer to each case."""
    command = [str(find_java().path), "-Dfile.encoding=UTF-8", "-cp", classpath, str(program)]
    lines = "".join(f"{json.dumps(one)}\n" for one in cases)
    environment = {**os.environ, "TZ": "UTC"}
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def write(output: Path, cases: Sequence[Case], found: Sequence[Case]) -> None:
    """Write each case with its answer on a line."""
    written = [json.dumps({**one, "answer": answer}) for one, answer in zip(cases, found, strict=True)]
    output.parent.mkdir(parents=True, exist_ok=True)
    text = "[\n" + ",\n".join(written) + "\n]\n"
    output.write_bytes(gzip.compress(text.encode(), mtime=0) if output.suffix == ".gz" else text.encode())
    print(f"{len(written)} cases in {output}")
