"""A stream whose `process` is a test's own function, by the connector's name; by default all goes to one topic."""

from collections.abc import Callable
from typing import Any, ClassVar

from fencepost.api import SinkBatch, StreamConnector, StreamTask, setting

Process = Callable[["ScriptedTask", SinkBatch], Any]


class ScriptedTask(StreamTask):
    config: "ScriptedStream"

    def process(self, batch: SinkBatch) -> Any:
        scripted = ScriptedStream.scripts.get(self.config.name)
        return batch.to(self.config.target) if scripted is None else scripted(self, batch)


class ScriptedStream(StreamConnector):
    """Set `scripts[connector]`, in the process of its tasks."""

    task = ScriptedTask
    scripts: ClassVar[dict[str, Process]] = {}

    name: str = setting("name", doc="Its own.")
    target: str = setting("target", doc="Where records go.")
