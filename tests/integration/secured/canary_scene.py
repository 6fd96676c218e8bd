"""Connectors whose configs refer to secrets wherever they can, and all that must not show these."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import pytest
from canary_stores import CanaryStores
from confluent_kafka import Consumer, TopicPartition
from secured_case import PLAIN_USERS, SECRETS, granted

from fencepost.testing import eventually
from support.http_answers import Answer, Asked, HttpAnswers
from support.secured import Grant, SecuredKafka
from support.worker import Worker, free_port

_PLUGINS = Path(__file__).parent / "plugins"
_CREATION = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
_AVRO = "io.confluent.connect.avro.AvroConverter"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class CanaryScene:
    """A context manager with a worker, not started, and the connectors to create; `states` are those they reach."""

    def __init__(self, broker: SecuredKafka, worker: Worker, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._broker = broker
        self._worker = worker
        self._directory = directory
        self._stores = CanaryStores(directory, monkeypatch)
        self._ui_port = free_port()
        self.connectors: dict[str, dict[str, str]] = {}
        self.states: dict[str, str] = {}
        monkeypatch.setenv("FENCEPOST_LOG_LEVEL", "DEBUG")

    def __enter__(self) -> Self:
        self._registry = HttpAnswers(self._of_registry)
        with contextlib.ExitStack() as begun:
            begun.callback(self._registry.close)
            begun.enter_context(self._stores)
            self._add_sources()
            self._add_others()
            self._grant()
            self._declare()
            self._stores.fill()
            self._end = begun.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    @property
    def count(self) -> int:
        """Return the number of canaries."""
        return len(self._stores.values)

    # what refers to canaries

    def _source(self, name: str, state: str, more: Mapping[str, str] | None = None) -> None:
        """Add a source with secrets in each of its parts."""
        canary = self._stores.canary
        own = {
            "connector.class": "CanarySource",
            "topic": f"canary-{name}",
            "password": canary(),
            "token": f"before {canary()} after",
            "transforms": "t",
            "transforms.t.type": "CanaryTransform",
            "transforms.t.secret": canary(),
            "transforms.t.predicate": "p",
            "predicates": "p",
            "predicates.p.type": "CanaryPredicate",
            "predicates.p.secret": canary(),
            "value.converter": "CanaryConverter",
            "value.converter.secret": canary(),
            "key.converter": "CanaryConverter",
            "key.converter.secret": canary(),
            **_CREATION,
        }
        self._add(name, state, {**own, **(more or {})})

    def _add(self, name: str, state: str, config: dict[str, str]) -> None:
        self.connectors[name], self.states[name] = config, state

    def _add_sources(self) -> None:
        canary, written = self._stores.canary, self._stores.written_canary
        password = self._stores.in_file("WRITER", PLAIN_USERS["writer"])
        jaas = "producer.override.sasl.jaas.config"
        self._source("ok", "RUNNING", {jaas: f'{_PLAIN} username="writer" password="{password}";'})
        self._source("at-start", "FAILED", {"fails": "start"})
        self._source("at-configs", "FAILED", {"fails": "task_configs", "written": written()})
        self._source("at-dsn", "FAILED", {"fails": "dsn"})
        self._source("at-task", "FAILED", {"fails": "task", "password": written()})
        self._source("at-poll", "FAILED", {"fails": "poll"})
        self._source("at-value", "FAILED", {"value.converter.fails": "true", "value.converter.secret": written()})
        self._source("at-transform", "FAILED", {"transforms.t.fails": "true"})
        self._source("at-password", "FAILED", {jaas: f'{_PLAIN} username="writer" password="{canary("plain")}";'})
        letters = {
            "transforms.t.fails": "true",
            "errors.tolerance": "all",
            "errors.log.enable": "true",
            "errors.log.include.messages": "true",
            "errors.deadletterqueue.topic.name": "canary-letters",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        self._source("tolerated", "RUNNING", letters)

    def _add_others(self) -> None:
        canary, written = self._stores.canary, self._stores.written_canary
        sink = {"connector.class": "CanarySink", "topics": "canary-ok", "password": canary()}
        self._add(
            "sink", "FAILED", {**sink, "value.converter": "ByteArrayConverter", "key.converter": "StringConverter"}
        )
        avro = {"key.converter": "StringConverter", "transforms": "", "predicates": "", "value.converter": _AVRO}
        prefix = "value.converter."
        user = {f"{prefix}basic.auth.credentials.source": "USER_INFO"}
        self._source("registry", "RUNNING", {
            **avro, **user, f"{prefix}schema.registry.url": self._registry.url,
            f"{prefix}basic.auth.user.info": canary(before="me:"),
        })  # fmt: skip
        self._source("at-registry", "FAILED", {
            **avro, f"{prefix}schema.registry.url": f"{self._registry.url}/denied",
            f"{prefix}bearer.auth.credentials.source": "STATIC_TOKEN", f"{prefix}bearer.auth.token": canary("token"),
        })  # fmt: skip
        url = self._registry.url.replace("//", f"//me:{written('plain')}@")
        self._source("at-rubbish", "FAILED", {**avro, f"{prefix}schema.registry.url": f"{url}/rubbish"})
        inbox = self._directory / "inbox"
        inbox.mkdir()
        (inbox / "a.csv").write_text("id,name\n1,x\n2,y\n")
        own = {f"producer.override.{k}": v for k, v in self._broker.client("other").items() if k.startswith("sasl.")}
        self._stores.written.add(PLAIN_USERS["other"])
        self._add("rows", "RUNNING", {
            "connector.class": "SpoolDirectorySource", "input.path": str(inbox), "input.schema": "id INT, name STRING",
            "reader.header": "true", "reader.nullValue": canary(), "topic": "canary-rows", "db.password": written(),
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false", "value.converter.password": canary(), **own, **_CREATION,
        })  # fmt: skip

        self._refused = {"connector.class": "CanarySource", "topic": "t", "password": canary(), "tasks.max": canary(),
                         "token": "${nobody:x}", "written": written()}  # fmt: skip

    def _of_registry(self, asked: Asked) -> Answer:
        if asked.path.startswith("/denied"):
            return Answer({"error_code": 40101, "message": f"no: {asked.headers.get('authorization')}"}, 401)
        if asked.path.startswith("/rubbish"):
            return Answer("<html>", 200, {"content-type": "text/html"})
        return Answer({"id": 7})

    def _grant(self) -> None:
        """Grant what the connectors need; what refers to secrets does not matter for that. All sources are alike."""
        self._worker.write_file()
        for name, cls in (("tolerated", "FileStreamSource"), ("sink", "FileStreamSink"), ("rows", "FileStreamSource")):
            config = self.connectors[name]
            own = ("topic", "errors.", *(["producer."] if name == "rows" else []))
            plain = {key: value for key, value in config.items() if key.startswith(own)}
            grants = granted(self._worker, name, {"connector.class": cls, "file": "f", **plain})
            of_all = [_widened(grant, name) for grant in grants] if name == "tolerated" else grants
            self._broker.grant(dict.fromkeys(of_all))

    def _declare(self) -> None:
        canary = self._stores.canary
        self._worker.properties |= {
            "plugin.path": str(_PLUGINS),
            **self._stores.declared(),
            "header.converter": "CanaryHeaderConverter",
            "header.converter.secret": canary(),
            "spark.canary.plainly.named": canary(),
            "spark.canary.password": canary(),
            "spark.ui.enabled": "true",
            "spark.ui.port": str(self._ui_port),
            "slots.max": "1",
        }
        self._worker.write_file()

    # what must not show them

    def run(self) -> dict[str, str]:
        """Run the worker until all connectors are in their states. Returns all that it has shown by then."""
        worker = self._worker
        worker.start(within_s=120)
        for logger in ("root", "kafka", "httpx"):
            assert worker.rest.put(f"/admin/loggers/{logger}", json={"level": "DEBUG"}).status_code == 200
        answers = {f"create {name}": worker.create(name, config).text for name, config in self.connectors.items()}
        eventually(lambda: self._reached() == self.states or self._unexpected(answers), within_s=200)
        answers |= self._asked({**self.connectors, "refused": self._refused}) | self._of_ui() | self._command_lines()
        return {**answers, **self._topics(), "log": worker.log_text()}

    def _reached(self) -> dict[str, str]:
        return {name: _state(self._worker.status(name)) for name in self.states}

    def _unexpected(self, answers: Mapping[str, str]) -> bool:
        found = {name: state for name, state in self._reached().items() if state != self.states[name]}
        raise AssertionError(
            f"{found} {[self._worker.status(n) for n in found]} {[answers[f'create {n}'] for n in found]}"
        )

    def _asked(self, configs: Mapping[str, dict[str, str]]) -> dict[str, str]:
        rest = self._worker.rest
        below = ["", "/config", "/status", "/tasks", "/tasks-config", "/offsets", "/topics"]
        below += ["/gaps", "/figures", "/logs", "/lineage", "/dead-letters", "/dead-letters/resend"]
        pages = ("", "/live", "/config", "/edit", "/offsets", "/logs?level=DEBUG", "/dead-letters")
        paths = [f"/connectors/{name}{each}" for name in self.connectors for each in below]
        paths += [f"/ui/connectors/{name}{each}" for name in self.connectors for each in pages]
        paths += ["/connectors?expand=info&expand=status&expand=figures", "/metrics", "/health", "/connector-plugins"]
        paths += ["/lineage", "/ui", "/ui/lineage", "/ui/workers", "/ui/retention"]
        found = {f"GET {path}": rest.get(path).text for path in paths}
        assert any("canary plug-in: poll with [hidden]" in found[path] for path in found if path.endswith("/logs"))
        for name, config in configs.items():
            url = f"/connector-plugins/{config['connector.class']}/config/validate"
            found[f"validate {name}"] = rest.put(url, json={**config, "name": name}).text
        answer = self._worker.create("refused", configs["refused"])
        assert answer.status_code == 400, answer.text
        return {**found, "create refused": answer.text}

    def _of_ui(self) -> dict[str, str]:
        """Return pages of Spark's UI, which has the plans and the settings."""
        base = f"http://127.0.0.1:{self._ui_port}"
        (application,) = httpx.get(f"{base}/api/v1/applications", timeout=60).json()
        below = f"/api/v1/applications/{application['id']}"
        paths = ["/environment/", "/SQL/", "/jobs/", f"{below}/environment", f"{below}/sql?planDescription=true"]
        found = {f"UI {path}": httpx.get(base + path, timeout=60, follow_redirects=True).text for path in paths}
        assert "spark.canary.plainly.named" in found[f"UI {below}/environment"]
        return found

    def _command_lines(self) -> dict[str, str]:
        assert self._worker.process is not None
        root = psutil.Process(self._worker.process.pid)
        found = {}
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                found[f"process {process.pid}"] = " ".join(process.cmdline())
        return found

    def recorded(self, events: Path) -> dict[str, str]:
        """Return what Spark has recorded of its jobs: settings, environment, plans."""
        found = {str(path): path.read_text(errors="replace") for path in events.rglob("*") if path.is_file()}
        assert any("SparkListenerSQLExecutionStart" in text for text in found.values())
        assert any("spark.canary.plainly.named" in text for text in found.values())
        return found

    def leaks(self, seen: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return where canaries were found, by their beginnings, which no quoting changes."""
        stored = f"topic {self._worker.properties['config.storage.topic']}"
        secrets = {value: value.partition("-")[0].rpartition(":")[2] + "-" for value in self._stores.values.values()}
        secrets |= {secret: secret for secret in SECRETS}
        return [
            (where, text[max(0, text.index(secret) - 200) : text.index(secret) + 100])
            for where, text in seen.items()
            for value, secret in secrets.items()
            if secret in text and not (where == stored and value in self._stores.written)
        ]

    def missing(self, seen: Mapping[str, str]) -> list[str]:
        """Return what should have been shown with a secret hidden in it: else this proves nothing."""
        doings = ("canary plug-in: start", "canary plug-in: poll", "canary plug-in: test", "cannot put",
                  "cannot transform", "cannot convert", "cannot read", "cannot list")  # fmt: skip
        wanted = [f"{doing} with [hidden]" for doing in doings]
        wanted += ["canary plug-in: old [hidden]", "cannot log in with '[hidden]", "no: Bearer [hidden]"]
        everything = "\n".join(seen.values())
        return [text for text in wanted if text not in everything]

    def _topics(self) -> dict[str, str]:
        """Return everything in all topics."""
        consumer = Consumer({"bootstrap.servers": self._broker.kafka.internal_servers, "group.id": "canaries"})
        found: dict[str, list[str]] = {}
        try:
            topics = consumer.list_topics(timeout=30).topics
            places = [TopicPartition(name, n, 0) for name, topic in topics.items() for n in topic.partitions]
            places = [place for place in places if not place.topic.startswith("__")]
            consumer.assign(places)
            ends = {(p.topic, p.partition): consumer.get_watermark_offsets(p, 30)[1] for p in places}
            left = {place for place, end in ends.items() if end > 0}
            while left:
                for record in consumer.consume(500, 0.5):
                    text = f"{record.key()!r} {record.value()!r} {record.headers()!r}"
                    found.setdefault(f"topic {record.topic()}", []).append(text)
                at = consumer.position([TopicPartition(*place) for place in left])
                left = {(p.topic, p.partition) for p in at if p.offset < ends[p.topic, p.partition]}
        finally:
            consumer.close()
        assert "topic canary-letters" in found
        return {where: "\n".join(texts) for where, texts in found.items()}


def _widened(grant: Grant, name: str) -> Grant:
    """Return a grant for all that have such a name: the part before that of the connector is common to them."""
    before, found, _ = grant.name.partition(name)
    return grant._replace(name=before, is_prefix=True) if found else grant


def _state(status: Mapping[str, Any]) -> str:
    """Return the state of a connector, or of its tasks if it runs."""
    if not status or status["connector"]["state"] != "RUNNING":
        return "" if not status else str(status["connector"]["state"])
    return ",".join(task["state"] for task in status["tasks"])
