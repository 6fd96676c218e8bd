"""Health and metrics of this worker."""

from collections.abc import Callable

from fencepost.cluster.info import Health, HealthStatus
from fencepost.storage.config_topic import ConfigTopic
from fencepost.worker.progress import Progress

_READ_S = 10.0
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


class Probes:
    """The `ProbeOperations` of a worker."""

    def __init__(self, topic: ConfigTopic, progress: Progress, metrics: Callable[[], bytes]) -> None:
        self._topic = topic
        self._progress = progress
        self.metrics = metrics

    def health(self) -> Health:
        if not self._progress.is_started:
            return Health(HealthStatus.STARTING, f"{_STARTING} {self._progress.described()}")
        try:
            self._topic.read_to_end(_READ_S)
        except Exception:
            return Health(HealthStatus.UNHEALTHY, f"{_UNHEALTHY} {self._progress.described()}")
        return Health(HealthStatus.HEALTHY, _HEALTHY)
