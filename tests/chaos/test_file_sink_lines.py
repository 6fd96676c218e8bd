"""Tasks of FileStreamSink that are killed while they write batches of megabytes: no line is mixed with another's."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.chaos.appenders import value
from support.long_form import IS_LONG

ROUNDS = 50 if IS_LONG else 8
SUPPORT = Path(__file__).parents[1]


@pytest.mark.chaos
def test_a_killed_file_sink_leaves_at_most_half_a_line_and_mixes_no_lines(tmp_path, seed, capfd):
    halves = 0
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
    for number in range(ROUNDS):
        out = tmp_path / f"out-{number}"
        command = [sys.executable, "-m", "support.chaos.appenders", str(out), f"{seed}-{number}"]
        subprocess.run(command, check=True, timeout=300, cwd=SUPPORT)
        whole, others = set(), []
        for line in out.read_text().split("\n"):
            name, _, behind = line.partition(" ")
            of = behind.partition(" ")[0]
            if of.isdecimal() and line == value(name, int(of)):
                whole.add((name, int(of)))
            elif line:
                others.append(line)
        for line in others:  # what a killed task has left
            of = line.split(" ")[1:2]
            assert not line.endswith("$"), f"{line[:20]}…{line[-20:]} ({len(line)} bytes)"
            assert not of or value(line[0], int(of[0] or 0)).startswith(line) or len(line) < 10, line[:20]
        assert len(others) <= 2, [line[:20] for line in others]  # of the one, and of the other at the end
        halves += len(others)
        for name in "ab":
            acknowledged = range(int((tmp_path / f"{out.name}.{name}").read_text() or 0))
            assert {(name, n) for n in acknowledged} <= whole
        out.unlink()
    with capfd.disabled():
        print(f"{ROUNDS} kills, {halves} half lines")
