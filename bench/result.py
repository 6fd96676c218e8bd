"""What a part of the bench has found, and the JSON that it is kept as."""

import datetime
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from bench.statistic import number, statistic
from fencepost.embedded import KAFKA_VERSION
from fencepost.embedded.java import find_java

COMMITTED = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One line of the table: the samples of each side, and which statistics of them are shown.

    `detail` is what helps to understand the samples (processor time, memory), per side and run.
    """

    name: str
    unit: str
    samples: Mapping[str, Sequence[float]]
    statistics: Sequence[str] = ("median",)
    is_more_better: bool = False
    reach: str = ""
    detail: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)

    def show(self) -> list[str]:
        """A line for the terminal for each statistic."""
        lines = []
        for name in self.statistics:
            found = {side: statistic(name, values) for side, values in self.samples.items() if values}
            figures = [f"{side} {number(value)} (n {len(self.samples[side])})" for side, value in found.items()]
            lines.append(f"{self.name}, {name}, {self.unit}: " + ", ".join(figures) + self._ratio(found))
        return lines

    @property
    def is_measured(self) -> bool:
        """Whether there is any sample."""
        return any(self.samples.values())

    def after(self, earlier: "Row") -> "Row":
        """The samples of `earlier` and then ours."""
        return replace(
            self,
            samples={side: [*earlier.samples.get(side, ()), *values] for side, values in self.samples.items()},
            detail={side: [*earlier.detail.get(side, ()), *values] for side, values in self.detail.items()},
        )

    @staticmethod
    def _ratio(found: Mapping[str, float]) -> str:
        if len(found) < 2:
            return ""
        ours, theirs = list(found.values())[:2]
        return f", ratio {number(ours / theirs)}" if theirs else ""


@dataclass
class Result:
    """A part: how it was measured, with which settings, and its rows."""

    part: str
    title: str
    method: Sequence[str]
    settings: Mapping[str, Mapping[str, str]]
    rows: list[Row] = field(default_factory=list)
    began: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    runs: list[dict[str, Any]] = field(default_factory=list)

    def merge(self, directory: Path, *, is_adding: bool) -> None:
        """Keep what an earlier result in `directory` has of rows that were not measured now.

        With `is_adding`, put its samples of the other rows before ours, too.
        """
        path = directory / f"{self.part}.json"
        if not path.exists():
            return
        earlier = json.loads(path.read_text())
        rows = {row["name"]: Row(**row) for row in earlier["rows"]}
        measured = {row.name: row for row in self.rows if row.is_measured}
        if is_adding:
            measured = {name: row.after(rows[name]) if name in rows else row for name, row in measured.items()}
        names = dict.fromkeys([*rows, *(row.name for row in self.rows)])
        found = {**rows, **measured}
        self.rows = [found[name] for name in names if name in found]
        self.settings = {**earlier["settings"], **self.settings}
        self.runs = earlier["runs"]

    def write(self, directory: Path) -> Path:
        """Keep it as `<part>.json`, with machine and versions, and which runs it is made of."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.part}.json"
        run = {"began": self.began, "seconds": self.seconds, "commit": commit()}
        content = {**asdict(self), "machine": machine(), "versions": versions(), "runs": [*self.runs, run]}
        for told_with_the_run in ("began", "seconds"):
            del content[told_with_the_run]
        path.write_text(json.dumps(content, indent=1, default=list) + "\n")
        return path


def machine() -> dict[str, str]:
    """What it was measured on."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": model[1] if model else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    packages = {name: version(name) for name in ("fencepost", "pyspark", "confluent-kafka", "pyarrow")}
    return {
        "Kafka and Kafka Connect": KAFKA_VERSION,
        "Java": str(find_java().version),
        "Python": platform.python_version(),
        **packages,
    }


def commit() -> str:
    """What was checked out; with a note where the sources differ from it."""
    changes = " with changes" if _git("status", "--porcelain", "--", "src") else ""
    return _git("rev-parse", "--short=12", "HEAD") + changes


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
