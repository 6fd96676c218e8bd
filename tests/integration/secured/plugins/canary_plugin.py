"""Plug-ins that quote their secrets in logs, errors and task configs, as careless authors do."""

import json
import logging
import threading
import warnings
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fencepost.api import (
    STRING,
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
from fencepost.builtin.provider import cloud

log = logging.getLogger(__name__)


class CanaryConfigProvider(ConfigProvider):
    """A provider of one's own."""

    file: Path = setting("file", doc="A JSON object.")

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        known = json.loads(self.file.read_text())
        return ConfigData({key: known[key] for key in keys if key in known})


class _Token(NamedTuple):
    token: str
    expires_on: int


class _Credential:
    def get_token(self, *scopes: str, **_: Any) -> _Token:
        return _Token("right", 1 << 33)


class CanaryAzureProvider(cloud.AzureConfigProvider):
    """Azure's, but for the login, which only Microsoft has, and the name of the host."""

    @cached_property
    def _credential(self) -> Any:
        return _Credential()

    def _client(self) -> Any:
        from azure.keyvault.secrets import SecretClient

        return SecretClient(self.vault, self._credential, verify_challenge_resource=False)


def _fail_apart(text: str) -> None:
    raise ValueError(text)


class CanaryTask(SourceTask):
    """Has one record."""

    def start(self) -> None:
        secret = self.config.password.reveal()
        log.debug("canary plug-in: start with %s", secret)
        log.debug("canary plug-in: quoted %r", {"password": secret, "more": json.dumps([secret])})
        warnings.warn(f"canary plug-in: old {secret}", stacklevel=1)
        apart = threading.Thread(target=_fail_apart, args=(f"cannot read with {secret}",))
        apart.start()
        apart.join()
        if self.config.fails == "task":
            raise OSError(f"cannot log in with {secret!r} at {self.config.dsn}")
        self._is_done = False

    def poll(self) -> list[SourceRecord] | None:
        secret = self.config.password.reveal()
        if self.config.fails == "poll":
            log.warning("canary plug-in: poll with %s", secret)
            raise ValueError(json.dumps({"password": secret, "url": f"db://me:{quote(secret, safe='')}@host"}))
        if self._is_done:
            self.context.wait(0.2)
            return None
        self._is_done = True
        return [SourceRecord({"p": "1"}, {"n": 1}, self.config.topic, "v", key="k", value_schema=STRING)]


class CanarySource(SourceConnector):
    """Fails where its config says so."""

    task = CanaryTask

    topic: str = setting("topic", doc="Where to.")
    password: Secret = setting("password", doc="A secret.")
    written: Secret | None = setting("written", default=None, doc="A secret that is in the config itself.")
    token: str = setting("token", default="", doc="Another secret, which is not declared as one.")
    dsn: str = setting("dsn", default="", doc="Of a task: made of both.")
    fails: str = setting("fails", default="", doc="Where.")

    def start(self) -> None:
        if self.fails == "start":
            raise OSError(f"cannot log in with {self.password.reveal()} at {self.token}")

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, Any]]:
        if self.fails == "task_configs":
            written = self.written.reveal() if self.written else ""
            raise OSError(f"cannot list with {self.password.reveal()} at {self.token} or {written!r}")
        dsn = f"db://{self.password.reveal()}:{self.token}@host"
        if self.fails == "dsn":
            dsn = f"db://{quote(self.password.reveal(), safe='')}@host"
        return [{**self.originals, "dsn": dsn}]


class CanarySinkTask(SinkTask):
    def put(self, batch: Any) -> None:
        raise OSError(f"cannot put with {self.config.password.reveal()}")


class CanarySink(SinkConnector):
    task = CanarySinkTask

    password: Secret = setting("password", doc="A secret.")


class CanaryPredicate(Predicate):
    secret: Secret = setting("secret", doc="A secret.")

    def test(self, record: Any) -> bool:
        log.info("canary plug-in: test with %s", self.secret.reveal())
        return True


class CanaryTransform(Transform):
    secret: Secret = setting("secret", doc="A secret.")
    fails: bool = setting("fails", default=False, doc="Whether it fails.")

    def apply(self, record: Record) -> Record | None:
        if self.fails:
            raise RecordError(f"cannot transform with {self.secret.reveal()}")
        return record


class CanaryConverter(Converter):
    secret: Secret = setting("secret", doc="A secret.")
    fails: bool = setting("fails", default=False, doc="Whether it fails.")

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if self.fails:
            raise RecordError(f"cannot convert with {self.secret.reveal()}")
        return None if value is None else str(value).encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return None, data


class CanaryHeaderConverter(HeaderConverter):
    secret: Secret = setting("secret", doc="A secret.")

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else str(value).encode()

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return None, data
