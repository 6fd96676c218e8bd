"""What the chaos tests found, kept as JSON lines: one fault a line, for the page of evidence.

`FENCEPOST_EVIDENCE` names the directory; without it nothing is written. A line holds at least `test`, `seed`, `run`,
`what`, `phase`, `state`, `recovery_s` and `verdict`; the first line of a run holds its versions instead.
"""

import json
import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fencepost.embedded.home import KAFKA_VERSION

VARIABLE = "FENCEPOST_EVIDENCE"
UNPROVEN = "unproven"


class Evidence:
    """The faults of one run of one test. They are written with the verdict, in `close`: until then it is unproven."""

    def __init__(self, test: str, seed: int) -> None:
        self._about = {"test": test, "seed": seed, "run": f"{test}-{seed}-{time.time_ns() // 1_000_000}"}
        self._faults: list[dict[str, Any]] = []
        self.verdict = UNPROVEN
        self.records = 0

    def fault(self, what: str, phase: str, state: str | None, recovery_s: float | None, **more: Any) -> None:
        """Note a fault: what was done, at which phase, the state that the broker described, and the recovery.

        `client`, among what is told `more`, is what the task that was hit writes with.
        """
        took_s = None if recovery_s is None else round(recovery_s, 3)
        self._faults.append({"what": what, "phase": phase, "state": state, "recovery_s": took_s, **more})

    def close(self) -> None:
        """Write everything; does nothing without a directory."""
        directory = os.environ.get(VARIABLE)
        if not directory:
            return
        lines = [self._head(), *({**self._about, **fault, "verdict": self.verdict} for fault in self._faults)]
        path = Path(directory) / f"{self._about['run']}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def _head(self) -> dict[str, Any]:
        versions = {name: version(name) for name in ("confluent-kafka", "pyspark")}
        return {
            **self._about,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "commit": _commit(),
            "versions": {"Apache Kafka": KAFKA_VERSION, **versions, "Python": platform.python_version()},
            "records": self.records,
            "verdict": self.verdict,
        }


def _commit() -> str:
    """Return the commit that was tested, with a + where the tree was not quite that."""
    changed = "+" if _git("status", "--porcelain", "--", "src") else ""
    return (_git("rev-parse", "--short", "HEAD") or "unknown") + changed


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()
