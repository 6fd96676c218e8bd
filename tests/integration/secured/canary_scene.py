"""Values in seven stores, configs that refer to them wherever they can, and where they must not be found."""

import base64
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import boto3
import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from moto.server import ThreadedMotoServer
from secured_case import PLAIN_USERS, SECRETS

from support.gcp_account import service_account
from support.http_answers import Answer, Asked, HttpAnswers
from support.secured import SecuredKafka
from support.worker import Worker

KINDS = ("file", "directory", "env", "vault", "aws", "gcp", "own")
PLUGINS = Path(__file__).parent / "plugins"
_REGION = "eu-central-1"
_CREATION = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}


class CanaryScene:
    """A context manager. `states` are those that the connectors reach."""

    def __init__(self, broker: SecuredKafka, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._broker = broker
        self._directory = directory
        self._monkeypatch = monkeypatch
        self.values: dict[str, str] = {}
        """Canaries by their references."""
        self._stores: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        self.connectors: dict[str, dict[str, str]] = {}
        self.states: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.declared: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._vault, self._gcp = HttpAnswers(self._of_vault), HttpAnswers(self._of_gcp)
        self._aws = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._aws.start()
        self._make()
        self._fill()
        return self

    def __exit__(self, *_: object) -> None:
        self._vault.close()
        self._gcp.close()
        self._aws.stop()

    # what refers to canaries

    def canary(self, rest: str = "\"quoted\\it's") -> str:
        """Return a reference to a new value, of each store in turn; its end is quoted in many ways."""
        number = len(self.values)
        kind, key = KINDS[number % len(KINDS)], f"K{number:02}"
        value = f"canary{number:02}-{rest}"
        self._stores[kind][key] = value
        path = {
            "file": f"{self._directory}/canaries.properties", "directory": f"{self._directory}/canaries", "env": "",
            "vault": "secret/data/canaries", "aws": "canaries", "gcp": "canaries", "own": "any",
        }[kind]  # fmt: skip
        reference = f"${{{kind}:{path}:{key}}}" if path else f"${{{kind}:{key}}}"
        self.values[reference] = value
        return reference

    def _source(self, name: str, state: str, **more: str) -> None:
        """Add a source whose every part has secrets."""
        own = {
            "connector.class": "CanarySource",
            "topic": f"canary-{name}",
            "password": self.canary(),
            "token": f"before {self.canary()} after",
            "transforms": "t",
            "transforms.t.type": "CanaryTransform",
            "transforms.t.secret": self.canary(),
            "transforms.t.predicate": "p",
            "predicates": "p",
            "predicates.p.type": "CanaryPredicate",
            "predicates.p.secret": self.canary(),
            "value.converter": "CanaryConverter",
            "value.converter.secret": self.canary(),
            "key.converter": "CanaryConverter",
            "key.converter.secret": self.canary(),
            **_CREATION,
        }
        self._add(name, state, {**own, **{key.replace("__", "."): value for key, value in more.items()}})

    def _add(self, name: str, state: str, config: dict[str, str]) -> None:
        self.connectors[name], self.states[name] = config, state

    def _make(self) -> None:
        writer = PLAIN_USERS["writer"]
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        wrong = f'{module} username="writer" password="{self.canary("plain")}";'
        self._stores["file"]["WRITER"] = writer
        right = f'{module} username="writer" password="${{file:{self._directory}/canaries.properties:WRITER}}";'
        self._source("ok", "RUNNING", producer__override__sasl__jaas__config=right)
        self._source("at-start", "FAILED", fails="start")
        self._source("at-configs", "FAILED", fails="task_configs")
        self._source("at-task", "FAILED", fails="task")
        self._source("at-poll", "FAILED", fails="poll")
        self._source("at-value", "FAILED", value__converter__fails="true")
        self._source("at-transform", "FAILED", transforms__t__fails="true")
        self._source("at-password", "FAILED", producer__override__sasl__jaas__config=wrong)
        self._source(
            "tolerated", "RUNNING", transforms__t__fails="true", errors__tolerance="all", errors__log__enable="true",
            errors__log__include__messages="true", errors__deadletterqueue__topic__name="canary-letters",
            errors__deadletterqueue__topic__replication__factor="1",
            errors__deadletterqueue__context__headers__enable="true",
        )  # fmt: skip
        sink = {"connector.class": "CanarySink", "topics": "canary-ok", "password": self.canary()}
        self._add("sink", "FAILED", {**sink, "value.converter": "ByteArrayConverter", "fails": "true"})
        inbox = self._directory / "inbox"
        inbox.mkdir()
        (inbox / "a.csv").write_text("id,name\n1,x\n2,y\n")
        rows = {
            "connector.class": "SpoolDirectorySource", "input.path": str(inbox), "input.schema": "id INT, name STRING",
            "reader.header": "true", "reader.nullValue": self.canary(), "topic": "canary-rows",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false", "value.converter.password": self.canary(), **_CREATION,
        }  # fmt: skip
        self._add("rows", "RUNNING", rows)
        self.refused = {"connector.class": "CanarySource", "topic": "t", "password": self.canary(),
                        "tasks.max": self.canary(), "token": "${nobody:x}"}  # fmt: skip
        self._declare()

    def _declare(self) -> None:
        package = "org.apache.kafka.common.config.provider"
        classes = {
            "file": f"{package}.FileConfigProvider", "directory": f"{package}.DirectoryConfigProvider",
            "env": f"{package}.EnvVarConfigProvider", "vault": "fencepost.provider.VaultConfigProvider",
            "aws": "fencepost.provider.AwsConfigProvider", "gcp": "fencepost.provider.GcpConfigProvider",
            "own": "CanaryConfigProvider",
        }  # fmt: skip
        params = {
            "file.param.allowed.paths": str(self._directory),
            "directory.param.allowed.paths": str(self._directory),
            "vault.param.address": self._vault.url,
            "vault.param.token": self.canary_of_env(),
            "aws.param.region": _REGION,
            "aws.param.endpoint.url": "http://{}:{}".format(*self._aws.get_host_and_port()),
            "gcp.param.endpoint": self._gcp.url,
            "gcp.param.transport": "rest",
            "gcp.param.project.id": "shop",
            "own.param.file": str(self._directory / "own.json"),
        }
        self.declared = {
            "plugin.path": str(PLUGINS),
            "config.providers": ",".join(("env", *(kind for kind in KINDS if kind != "env"))),
            **{f"config.providers.{kind}.class": name for kind, name in classes.items()},
            **{f"config.providers.{key}": value for key, value in params.items()},
            "header.converter": "CanaryHeaderConverter",
            "header.converter.secret": self.canary(),
            "spark.canary.plainly.named": self.canary(),
            "spark.canary.password": self.canary(),
        }

    def canary_of_env(self) -> str:
        self._token = "canarytoken-of-vault"
        self._stores["env"]["VAULT_TOKEN"] = self._token
        self.values["${env:VAULT_TOKEN}"] = self._token
        return "${env:VAULT_TOKEN}"

    # the stores

    def _fill(self) -> None:
        escaped = {key: value.replace("\\", "\\\\") for key, value in self._stores["file"].items()}
        text = "".join(f"{key}={value}\n" for key, value in escaped.items())
        (self._directory / "canaries.properties").write_text(text)
        (self._directory / "canaries").mkdir()
        for key, value in self._stores["directory"].items():
            (self._directory / "canaries" / key).write_text(value)
        for key, value in self._stores["env"].items():
            self._monkeypatch.setenv(key, value)
        (self._directory / "own.json").write_text(json.dumps(self._stores["own"]))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self._monkeypatch.setenv(name, "testing")
        account = service_account(self._directory / "account.json")
        self._monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        self._monkeypatch.setenv("FENCEPOST_LOG_LEVEL", "DEBUG")
        endpoint = self.declared["config.providers.aws.param.endpoint.url"]
        client = boto3.client("secretsmanager", region_name=_REGION, endpoint_url=endpoint)
        client.create_secret(Name="canaries", SecretString=json.dumps(self._stores["aws"]))

    def _of_vault(self, asked: Asked) -> Answer:
        if asked.headers.get("x-vault-token") != self._token:
            return Answer({"errors": ["permission denied"]}, 403)
        return Answer({"lease_id": "", "data": {"data": self._stores["vault"], "metadata": {"version": 1}}})

    def _of_gcp(self, asked: Asked) -> Answer:
        data = base64.b64encode(json.dumps(self._stores["gcp"]).encode()).decode()
        return Answer({"name": "projects/1/secrets/canaries/versions/1", "payload": {"data": data}})

    # what must not show them

    def shown(self, worker: Worker) -> dict[str, str]:
        """Return what REST, the log, Kafka's topics and the command lines show."""
        below = ("", "/config", "/status", "/tasks", "/offsets", "/topics")
        paths = [f"/connectors/{name}{rest}" for name in self.connectors for rest in below]
        paths += ["/connectors?expand=info&expand=status", "/metrics", "/health", "/connector-plugins"]
        found = {f"GET {path}": worker.rest.get(path).text for path in paths}
        for name, config in {**self.connectors, "refused": self.refused}.items():
            url = f"/connector-plugins/{config['connector.class']}/config/validate"
            found[f"validate {name}"] = worker.rest.put(url, json={**config, "name": name}).text
        answer = worker.create("refused", self.refused)
        assert answer.status_code == 400
        found["create refused"] = answer.text
        assert worker.process is not None
        root = psutil.Process(worker.process.pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                found[f"process {process.pid}"] = " ".join(process.cmdline())
        return {**found, **self._topics(), "log": worker.log_text()}

    def recorded(self, events: Path) -> dict[str, str]:
        """Return what Spark has recorded of its jobs: settings, environment, plans."""
        found = {str(path): path.read_text(errors="replace") for path in events.rglob("*") if path.is_file()}
        assert any("SparkListenerSQLExecutionStart" in text for text in found.values())
        assert any("spark.canary.plainly.named" in text for text in found.values())
        return found

    def leaks(self, seen: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return where canaries, or the words of them that no quoting changes, were found."""
        words = [value.partition("-")[0] + "-" for value in self.values.values()]
        secrets = [*dict.fromkeys(words), self._token, *SECRETS]
        return [(where, secret) for where, text in seen.items() for secret in secrets if secret in text]

    def unused(self, worker: Worker) -> list[str]:
        """Return what shows that the test has not come to what it is about."""
        log = worker.log_text()
        doings = ("canary plug-in: start", "canary plug-in: poll", "cannot put", "cannot transform", "cannot convert")
        wanted = [f"{doing} with [hidden]" for doing in doings]
        return [text for text in wanted if text not in log]

    def _topics(self) -> dict[str, str]:
        """Return everything in all topics."""
        consumer = Consumer({"bootstrap.servers": self._broker.kafka.internal_servers, "group.id": "canaries"})
        found: dict[str, Any] = {}
        try:
            topics = consumer.list_topics(timeout=30).topics
            places = [TopicPartition(name, n, 0) for name, topic in topics.items() for n in topic.partitions]
            places = [place for place in places if not place.topic.startswith("__")]
            consumer.assign(places)
            ends = {(p.topic, p.partition): consumer.get_watermark_offsets(p, 30)[1] for p in places}
            left = {place for place, end in ends.items() if end > 0}
            while left:
                for record in consumer.consume(500, 1.0):
                    text = f"{record.key()!r} {record.value()!r} {record.headers()!r}"
                    found.setdefault(f"topic {record.topic()}", []).append(text)
                left = {
                    (p.topic, p.partition)
                    for p in consumer.position([TopicPartition(*place) for place in left])
                    if p.offset < ends[p.topic, p.partition]
                }
        finally:
            consumer.close()
        assert "topic canary-letters" in found
        return {where: "\n".join(texts) for where, texts in found.items()}
