"""The two doors through which tasks run: slots, and splits of DataFrames."""

from fencepost.worker.connector_classes import ConnectorClasses
from fencepost.worker.supervision.port import TaskHost


class Doors:
    """Says which door runs a connector's tasks.

    The doors tell the supervisor what becomes of tasks, and it needs them to run any: they are hung once it is there,
    before it starts.
    """

    def __init__(self, classes: ConnectorClasses) -> None:
        self._classes = classes
        self._slots: TaskHost | None = None
        self._frames: TaskHost | None = None

    def hang(self, slots: TaskHost, frames: TaskHost) -> None:
        """Put both in their places."""
        self._slots, self._frames = slots, frames

    def of(self, connector_class: str) -> TaskHost:
        """Return the door of a class of connectors. Raises ConfigError for a class that is not there."""
        host = self._frames if self._classes.is_dataframe(connector_class) else self._slots
        if host is None:
            raise RuntimeError("the doors of this worker were never hung")
        return host
