"""Health and metrics of this worker."""

from collections.abc import Callable, Iterator
from typing import Protocol

from fencepost.cluster.info import Health, HealthStatus
from fencepost.cluster.leadership import LeaderState
from fencepost.config.watched import stale_files
from fencepost.storage.config_topic import ConfigTopic
from fencepost.telemetry.secret import hide
from fencepost.worker.operation.observation.figures import Figures
from fencepost.worker.operation.observation.logs import Logs
from fencepost.worker.progress import Progress

_READ_S = 10.0
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_WITHOUT_SPARK = "Worker answers requests, but cannot run tasks: Spark is not running, and is started again."
_BEFORE_SPARK = "Worker answers requests, but cannot run tasks yet: Spark is starting."
_REFUSED = "It leads, and fails to write what it decides:"
_STALE = "What these files said before they were changed is still in use (the log says why):"
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


class KeptSpark(Protocol):
    """The part of `SparkKeeper` that is needed here."""

    @property
    def absence(self) -> str | None:
        """Say why Spark is gone or could not be started; None while it runs, or starts for the first time."""

    @property
    def is_ready(self) -> bool:
        """Say whether tasks can run."""


class Probes:
    """The `ProbeOperations` of a worker."""

    def __init__(
        self, health: Callable[[], Health], metrics: Callable[[], bytes], figures: Figures, logs: Logs
    ) -> None:
        self.health = health
        self.metrics = metrics
        self.figures, self.figures_here = figures.read, figures.here
        self.past, self.past_here = figures.past.read, figures.past.here
        self.logs, self.logs_here = logs.read, logs.here


class HealthCheck:
    """Whether this worker can work, and what it fails to do."""

    def __init__(self, topic: ConfigTopic, progress: Progress, spark: KeptSpark, leader: LeaderState) -> None:
        self._topic = topic
        self._progress = progress
        self._spark = spark
        self._leader = leader

    def __call__(self) -> Health:
        if not self._progress.is_started:
            return Health(HealthStatus.STARTING, f"{_STARTING} {self._progress.described()}")
        try:
            self._topic.read_to_end(_READ_S)
        except Exception:
            return Health(HealthStatus.UNHEALTHY, f"{_UNHEALTHY} {self._progress.described()}")
        absence = self._spark.absence
        if absence is not None:
            return Health(HealthStatus.STARTING, f"{_WITHOUT_SPARK} {hide(absence)}")
        if not self._spark.is_ready:
            return Health(HealthStatus.STARTING, _BEFORE_SPARK)
        return Health(HealthStatus.HEALTHY, " ".join([_HEALTHY, *self._troubles()]))

    def _troubles(self) -> Iterator[str]:
        """Yield what a restart would not mend, so that the worker stays healthy."""
        if (refusal := self._leader.refusal) is not None:
            yield f"{_REFUSED} {hide(refusal)}"
        if stale := stale_files():
            yield f"{_STALE} {', '.join(stale)}."
