"""The two hosts that run tasks: slots, and splits of DataFrames."""

from fencepost.config.raw import RawConfig
from fencepost.worker.connector_classes import ConnectorClasses
from fencepost.worker.supervision.port import TaskHost


class TaskHosts:
    """Finds the host that runs a connector's tasks.

    Hosts report to the supervisor, which needs them to run tasks: they are attached after it is created, and before it
    starts.
    """

    def __init__(self, classes: ConnectorClasses) -> None:
        self._classes = classes
        self._slots: TaskHost | None = None
        self._frames: TaskHost | None = None

    def attach(self, slots: TaskHost, frames: TaskHost) -> None:
        """Set both hosts."""
        self._slots, self._frames = slots, frames

    def of(self, config: RawConfig) -> TaskHost:
        """Return the host for a connector. Raises ConfigError if its class is not found."""
        host = self._frames if self._classes.is_dataframe(config) else self._slots
        if host is None:
            raise RuntimeError("the task hosts of this worker were not attached")
        return host
