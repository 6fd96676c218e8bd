"""Spark's driver, launched before the rest of a worker is even imported: nothing else takes as long to come up."""

import logging
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.config.worker import WorkerConfig
from fencepost.spark.jvm import DriverJvm
from fencepost.task.channel import CA_VARIABLE
from fencepost.task.signature import SECRET_VARIABLE

log = logging.getLogger("fencepost.worker")


@dataclass
class Driver:
    """What the worker's Spark is started with, again after each loss; `jvm` is one that nobody has taken yet.

    `secret` signs the channel, and reaches executors with the authority of its certificate in their environment (E11).
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
        self.jvm = DriverJvm(self.config.spark, self.secrets, say_line)

    def take(self) -> DriverJvm | None:
        """Return the JVM that was launched, to the first who asks."""
        jvm, self.jvm = self.jvm, None
        return jvm


def say_line(line: str) -> None:
    """Pass on what Spark prints."""
    log.info("spark: %s", line)
