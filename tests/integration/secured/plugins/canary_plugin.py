"""Plug-ins that quote their secrets in logs and errors, as careless authors do."""

import json
import logging
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from fencepost.api import (
    ConfigData,
    ConfigProvider,
    Converter,
    HeaderConverter,
    Predicate,
    Record,
    RecordError,
    Schema,
    Secret,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Transform,
    setting,
)

log = logging.getLogger(__name__)


class CanaryConfigProvider(ConfigProvider):
    """A provider of one's own."""

    file: Path = setting("file", doc="A JSON object.")

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        known = json.loads(self.file.read_text())
        return ConfigData({key: known[key] for key in keys if key in known})


class CanaryTask(SourceTask):
    """Has a record each time."""

    def start(self) -> None:
        log.debug("canary plug-in: start with %s", self.config.password.reveal())
        if self.config.fails == "task":
            raise OSError(f"cannot log in with {self.config.password.reveal()!r} at {self.config.dsn}")
        self._is_done = False

    def poll(self) -> list[SourceRecord] | None:
        if self.config.fails == "poll":
            log.warning("canary plug-in: poll with %s", self.config.password.reveal())
            raise ValueError(json.dumps({"password": self.config.password.reveal(), "dsn": self.config.dsn}))
        if self._is_done:
            self.context.wait(0.2)
            return None
        self._is_done = True
        return [SourceRecord({"p": "1"}, {"n": 1}, self.config.topic, "v", key="k")]


class CanarySource(SourceConnector):
    """Fails where it is told to."""

    task = CanaryTask

    topic: str = setting("topic", doc="Where to.")
    password: Secret = setting("password", doc="A secret.")
    token: str = setting("token", default="", doc="Another, which is not declared as one.")
    dsn: str = setting("dsn", default="", doc="Of a task: made of both.")
    fails: str = setting("fails", default="", doc="Where.")

    def start(self) -> None:
        if self.fails == "start":
            raise OSError(f"cannot log in with {self.password.reveal()} at {self.token}")

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, Any]]:
        if self.fails == "task_configs":
            raise OSError(f"cannot list with {self.password.reveal()} at {self.token}")
        return [{**self.originals, "dsn": f"db://{self.password.reveal()}:{self.token}@host"}]


class CanarySinkTask(SinkTask):
    def put(self, batch: Any) -> None:
        raise OSError(f"cannot put with {self.config.password.reveal()}")


class CanarySink(SinkConnector):
    task = CanarySinkTask

    password: Secret = setting("password", doc="A secret.")
    fails: bool = setting("fails", default=False, doc="Always.")


class CanaryPredicate(Predicate):
    secret: str = setting("secret", doc="A secret.")

    def test(self, record: Any) -> bool:
        log.info("canary plug-in: test with %s", self.secret)
        return True


class CanaryTransform(Transform):
    secret: str = setting("secret", doc="A secret.")
    fails: bool = setting("fails", default=False, doc="Whether.")

    def apply(self, record: Record) -> Record | None:
        if self.fails:
            raise RecordError(f"cannot transform with {self.secret}")
        return record


class CanaryConverter(Converter):
    secret: str = setting("secret", doc="A secret.")
    fails: bool = setting("fails", default=False, doc="Whether.")

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if self.fails:
            raise RecordError(f"cannot convert with {self.secret}")
        return None if value is None else str(value).encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return None, data


class CanaryHeaderConverter(HeaderConverter):
    secret: str = setting("secret", doc="A secret.")

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else str(value).encode()

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return None, data
