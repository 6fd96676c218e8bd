"""Spark's driver, launched before most of a worker is imported, as nothing else takes as long to start."""

import logging
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.config.worker import WorkerConfig
from fencepost.spark.session.jvm import DriverJvm
from fencepost.task.channel.client import CA_VARIABLE
from fencepost.task.channel.signature import SECRET_VARIABLE
from fencepost.telemetry.slot_log import log_again

if TYPE_CHECKING:
    from fencepost.worker.host.slot.pool import Jobs
    from fencepost.worker.host.spark_keeper import KeptRuntime, OnSlotEnd

log = logging.getLogger("fencepost.worker")


@dataclass
class Driver:
    """What the worker's Spark is started with, also after each loss; `jvm` is one that is launched and not used yet.

    `secret` signs the channel. Executors get it, with the authority of the certificate, in their environment (E11).
    """

    config: WorkerConfig
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    jvm: DriverJvm | None = None

    @property
    def secrets(self) -> dict[str, str]:
        authority = self.config.channel_authority
        return {SECRET_VARIABLE: self.secret, CA_VARIABLE: Path(authority).read_text() if authority else ""}

    def launch(self) -> None:
        """Launch the JVM. Raises SparkError."""
        self.jvm = DriverJvm(self.config.spark, self.secrets, print_line)

    def take(self) -> DriverJvm | None:
        """Return the launched JVM to the first caller, and None to others."""
        jvm, self.jvm = self.jvm, None
        return jvm

    def runtime(self) -> "KeptRuntime":
        """Return a Spark to start; the first one uses the launched JVM."""
        from fencepost.spark.session.session import SparkRuntime  # imports what the JVM need not wait for

        return SparkRuntime(self.config.spark, secrets=self.secrets, on_line=print_line, jvm=self.take())

    def slot_jobs(self, runtime: "KeptRuntime", on_end: "OnSlotEnd") -> "Jobs":
        """Return the launcher of slots for a Spark that was started."""
        from fencepost.spark.slot.job import SlotJobs
        from fencepost.task.slot.slot import run_slot

        return SlotJobs(runtime, run_slot, on_end)


def print_line(line: str) -> None:
    """Log a line of Spark's or of its Python processes; an event of a slot's log as it was logged there."""
    if not log_again(line):
        log.info("spark: %s", line)
