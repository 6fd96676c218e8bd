"""What checks run with: an outside system, a directory that is made anew as often as a check needs it, and a Spark
session.
"""

import queue
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from fencepost.task.control import Control
from fencepost.testing.verdict import eventually

Config = Mapping[str, object]

_UNDISTURBED_S = 0.1
_SOON_S = 0.2


class Checks:
    """The base of the conformance classes for connectors."""

    config: ClassVar[Config] = {}

    def prepare(self, directory: Path) -> Config:
        """Make the outside system, in an empty directory if it is one of files, and return the connector's config."""
        return self.config


class Scene:
    """One directory, always at the same path, and the config that goes with its content."""

    def __init__(self, directory: Path, prepare: Callable[[Path], Config]) -> None:
        self.directory = directory
        self._prepare = prepare

    def fresh(self) -> Config:
        """Empty the directory, have it filled as at the beginning, and return the config."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        return self._prepare(self.directory)


@contextmanager
def scene(prepare: Callable[[Path], Config]) -> Iterator[Scene]:
    """Yield a scene, whose directory is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="fencepost-") as temporary:
        yield Scene(Path(temporary, "data"), prepare)


def ensure_stops(live: Callable[[Callable[[Control], None]], None], within_s: float) -> None:
    """Run the life of a task in a thread, ask it to stop, and raise AssertionError if it does not end in time.

    `live` calls its argument with the task's control once the task has started. An error of it is raised here.
    The limit is longer on a busy machine, as that of `eventually` is.
    """
    started: queue.Queue[Control | None] = queue.Queue()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            live(started.put)
        except BaseException as error:  # raised in the thread of the test, below
            errors.append(error)
            started.put(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    control = started.get()
    if control is not None:
        control.wait_for_stop(_UNDISTURBED_S)  # meanwhile it does what there is to do, and then waits
        control.stop()
    thread.join(min(within_s, _SOON_S))  # most end at once
    with suppress(AssertionError):
        eventually(lambda: not thread.is_alive(), within_s=within_s)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        place = "".join(traceback.format_stack(frame)[-2:])
        raise AssertionError(f"{within_s:g} s after the task was asked to stop it still runs, in\n{place}")
    if errors:
        raise errors[0]


class SparkChecks(Checks):
    """The base of the conformance classes for connectors that work with DataFrames."""

    def session(self) -> Any:
        """Return this process's Spark session; if there is none, a new one with two cores and without a web page."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
