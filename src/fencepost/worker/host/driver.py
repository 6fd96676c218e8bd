"""Spark's driver, launched before most of a worker is imported, as nothing else takes as long to start."""

import contextlib
import logging
import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.config.worker import WorkerConfig
from fencepost.secret.known import hide
from fencepost.spark.session import SparkError
from fencepost.spark.session.jvm import DriverJvm
from fencepost.task.channel.client import CA_VARIABLE, SECRET_VARIABLE
from fencepost.telemetry.plain_line import print_early
from fencepost.telemetry.slot_log import log_again

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime
    from fencepost.spark.slot.job import OnSlotEnd, OnSlotLeaving, SlotJobs

log = logging.getLogger("fencepost.worker")


@dataclass
class Driver:
    """What the worker's Spark is started with, also after each loss; the first one may start before it is needed.

    `secret` signs the channel. Executors get it, with the authority of the certificate, in their environment (E11).
    """

    config: WorkerConfig
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    _first: "SparkRuntime | None" = field(default=None, init=False, repr=False)

    @property
    def secrets(self) -> dict[str, str]:
        authority = self.config.channel_authority
        return {SECRET_VARIABLE: self.secret, CA_VARIABLE: Path(authority).read_text() if authority else ""}

    def launch(self) -> None:
        """Launch the JVM, import PySpark, and let a thread start the rest of Spark. Raises SparkError.

        PySpark is not imported by that thread: two threads that import modules of the same packages at the same time
        may wait for each other, which Python ends with an error for one of them.
        """
        self._first = first = self._spark(DriverJvm(self.config.spark, self.secrets, print_line))
        threading.Thread(target=_open, args=(first,), name="spark-start", daemon=True).start()

    def discard(self) -> None:
        """End the Spark that `launch` began, unless `runtime` has returned it."""
        first, self._first = self._first, None
        if first is not None:
            logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it may be waiting for an answer of the JVM
            first.stop()

    def runtime(self) -> "SparkRuntime":
        """Return a Spark to start; the first one is that of `launch`."""
        first, self._first = self._first, None
        return first or self._spark(None)

    def _spark(self, jvm: DriverJvm | None) -> "SparkRuntime":
        from fencepost.spark.session.session import SparkRuntime  # imports what the JVM need not wait for

        return SparkRuntime(self.config.spark, secrets=self.secrets, on_line=print_line, jvm=jvm)

    def slot_jobs(self, runtime: "SparkRuntime", on_end: "OnSlotEnd", on_leaving: "OnSlotLeaving") -> "SlotJobs":
        """Return the launcher of slots for a Spark that was started. In local mode no executor ever leaves."""
        from fencepost.spark.session.conf import LOCAL_MASTER, is_local
        from fencepost.spark.slot.job import SlotJobs
        from fencepost.task.slot.slot import run_slot

        jobs = SlotJobs(runtime, run_slot, on_end)
        if not is_local(self.config.spark.get("spark.master", LOCAL_MASTER)):
            jobs.watch_executors(on_leaving)
        return jobs


def print_line(line: str) -> None:
    """Log a line of Spark's or of its Python processes; an event of a slot's log as it was logged there."""
    if not logging.getLogger().handlers:  # the log is set up while the JVM starts
        print_early(log.name, f"spark: {hide(line)}")
    elif not log_again(line):
        log.info("spark: %s", line)


def _open(first: "SparkRuntime") -> None:
    with contextlib.suppress(SparkError):  # `start` raises it again
        first.open()
