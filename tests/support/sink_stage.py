"""One task of FileStreamSink without a worker: the real runner, loop and member of the group, on a real broker."""

import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

from fencepost.kafka.setting.client_settings import sink_conf
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import DeadLetterSpec, InputSpec, LookUpSpec, OutputSpec, TaskSpec
from fencepost.task.sink.runner import SinkRunner


class StartedSink:
    """Writes a topic to a file, in a thread; with what it has reported. A context manager: the task runs inside."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        out: Path,
        *,
        consumer: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        plugins: str = "",
        letters: str = "",
    ) -> None:
        """`consumer`: settings of its consumer; `properties`: more of the connector; `plugins`: where classes are;
        `letters`: the topic of its dead letters."""
        config = {
            "name": topic,
            "connector.class": "FileStreamSink",
            "file": str(out),
            "topics": topic,
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "header.converter": "SimpleHeaderConverter",
            **(properties or {}),
        }
        client = {"bootstrap.servers": bootstrap}
        conf = sink_conf({**client, **(consumer or {})}, f"connect-{topic}", "test").conf
        self.reports: list[TaskReport] = []
        self.runner = SinkRunner(
            TaskSpec(
                connector=topic,
                task=0,
                generation=1,
                incarnation=uuid.uuid4().hex,
                connector_config=config,
                task_config=config,
                look_up=LookUpSpec((plugins,) if plugins else ()),
                output=OutputSpec(producer_conf=dict(client), admin_conf=dict(client)),
                dead_letters=DeadLetterSpec(letters, 1),
                input=InputSpec(consumer_conf=conf, topics=(topic,)),
            ),
            lambda _: Admission(is_admitted=True),
            self.reports.append,
        )
        self._thread = threading.Thread(target=self.runner.run)

    def __enter__(self) -> "StartedSink":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.control.stop()
        self._thread.join(30)
