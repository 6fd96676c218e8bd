"""Connectors whose secrets are kept elsewhere: exactly once with them, and nothing shows them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from canary_scene import CanaryScene
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from secured_case import USERS, granted, settings, trace_of

from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import judge
from support.cluster import LightWorker
from support.secured import SecuredKafka
from support.worker import Worker

FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"


class Rotating:
    """A source whose topic and password are in a file; lines are appended to what it reads."""

    def __init__(self, broker: SecuredKafka, directory: Path) -> None:
        self.broker = broker
        self.group = directory.name
        self.topic = f"{self.group}-lines"
        self.secrets = directory / "secrets.properties"
        self.lines = directory / "lines.txt"
        self.lines.write_text("")
        self.rotate(USERS["maker"])
        declared = {
            "config.providers": "file",
            "config.providers.file.class": FILE,
            "config.providers.file.param.allowed.paths": str(directory),
        }
        self.worker = LightWorker(
            broker.kafka.bootstrap_servers, directory, {**settings(broker.client), **declared}, group=self.group
        )
        at = f"${{file:{self.secrets}"
        overrides = ("producer", "admin")
        self.config = {
            "connector.class": "FileStreamSource",
            "file": str(self.lines),
            "topic": f"{at}:topic}}",
            **{f"{kind}.override.sasl.mechanism": "SCRAM-SHA-512" for kind in overrides},
            **{f"{kind}.override.sasl.jaas.config": f"{at}:jaas}}" for kind in overrides},
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        }
        self.worker.write_file()
        broker.grant(granted(self.worker, "rotating", self.config))

    def rotate(self, password: str) -> None:
        """Let the broker know the user by another password, and write that to the file."""
        new = UserScramCredentialUpsertion(
            "maker", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
        )
        for future in self.broker.admin.alter_user_scram_credentials([new]).values():
            future.result(30)
        eventually(lambda: self._lets_in(password), within_s=60)
        jaas = self.broker.client("maker")["sasl.jaas.config"].replace(USERS["maker"], password)
        self.secrets.write_text(f"topic={self.topic}\njaas={jaas}\n")

    def _lets_in(self, password: str) -> bool:
        """Whether the broker, which hears of it from its controller, knows the password by now."""
        client = AdminClient({
            "bootstrap.servers": self.broker.kafka.bootstrap_servers, "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.broker.authority), "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "maker", "sasl.password": password, "log_level": 0,
        })  # fmt: skip
        return bool(client.list_topics(timeout=5).brokers)

    def deliver(self, count: int) -> None:
        """Append lines; all that were ever appended are in the topic, once and in order."""
        before = len(self.lines.read_text().splitlines())
        with self.lines.open("a") as out:
            out.writelines(f"line {before + n}\n" for n in range(count))
        expected = self.lines.read_text().splitlines()
        eventually(lambda: len(self._read()) >= len(expected), within_s=100)
        verdict = judge({"file": expected}, self._read(), sighting=lambda o: ("file", (o.value or b"").decode()))
        assert verdict.is_clean, verdict

    def _read(self) -> list:
        return CommittedReader(self.broker.kafka.internal_servers, [self.topic]).read_all(30)


@pytest.fixture
def rotating(broker: SecuredKafka, tmp_path: Path) -> Iterator[Rotating]:
    found = Rotating(broker, tmp_path)
    yield found
    found.worker.stop()
    found.rotate(USERS["maker"])


def test_secrets_from_a_file_keep_exactly_once_through_kills_and_a_rotation(rotating: Rotating) -> None:
    worker = rotating.worker
    worker.start()
    assert worker.create("rotating", rotating.config).status_code == 201
    rotating.deliver(500)

    worker.kill()
    worker.start()
    rotating.deliver(500)

    rotating.rotate("hush-rotated-4720")
    answer = worker.rest.post("/connectors/rotating/restart", params={"includeTasks": "true"})
    assert answer.status_code == 202
    rotating.deliver(500)
    worker.kill()
    worker.start()
    rotating.deliver(500)

    assert worker.rest.get("/connectors/rotating/config").json()["topic"] == rotating.config["topic"]
    (task,) = worker.rest.get("/connectors/rotating/tasks").json()
    assert task["config"]["topic"] == rotating.config["topic"]
    stored = CommittedReader(rotating.broker.kafka.internal_servers, [f"{rotating.group}-configs"]).read_all(30)
    shown = [each.value or b"" for each in stored] + [worker.log_text().encode()]
    hidden = (b"hush-rotated-4720", USERS["maker"].encode())
    assert not [text for text in shown if any(secret in text for secret in hidden)]


def test_a_task_with_a_missing_secret_fails_with_its_key_and_recovers(rotating: Rotating) -> None:
    worker = rotating.worker
    worker.start()
    assert worker.create("rotating", rotating.config).status_code == 201
    rotating.deliver(10)
    known = rotating.secrets.read_text()
    rotating.secrets.write_text(f"topic={rotating.topic}\n")
    assert worker.rest.post("/connectors/rotating/tasks/0/restart").status_code == 204
    trace = eventually(lambda: trace_of(worker, "rotating"), within_s=60)
    assert f"producer.override.sasl.jaas.config: ${{file:{rotating.secrets}:jaas}} cannot be looked up" in trace
    rotating.secrets.write_text(known)
    assert worker.rest.post("/connectors/rotating/tasks/0/restart").status_code == 204
    rotating.deliver(10)


@pytest.fixture
def canaries(
    broker: SecuredKafka, spark_worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CanaryScene]:
    with CanaryScene(broker, spark_worker, tmp_path, monkeypatch) as scene:
        yield scene


def test_e11_no_secret_is_shown_wherever_configs_refer_to_secrets(
    canaries: CanaryScene, spark_worker: Worker, tmp_path: Path
) -> None:
    """Of each provider, in each kind of plug-in, in slots and in Spark, on success and on failure, at DEBUG."""
    seen = canaries.run()
    spark_worker.stop()
    seen |= {**canaries.recorded(tmp_path / "events"), "log": spark_worker.log_text()}
    assert canaries.count >= 60
    assert canaries.leaks(seen) == []
    assert canaries.missing(seen) == []
