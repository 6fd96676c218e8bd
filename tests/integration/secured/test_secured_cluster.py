"""`fencepost acls` prints what is needed, all of it and no more: with it everything works, without any of it something
fails that says what is missing.
"""

from pathlib import Path

import pytest
from secured_case import (
    CONNECTOR,
    GROUP,
    PLAIN_USERS,
    SECRETS,
    TOPIC,
    USERS,
    Secured,
    append,
    assert_names,
    deliver,
    denied_line,
    granted,
    is_delivered,
    lines,
    refused,
    revoked,
    settings,
    trace_of,
)

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    TransactionalWriter,
    WriterFencedError,
    WriterOpenError,
)
from support.cluster import LightWorker
from support.long_form import IS_LONG
from support.secured import Grant, SecuredKafka, key_store
from support.worker import Worker

OWN_OFFSETS = f"{CONNECTOR}-offsets"


def rights(principal: str, resource: str, name: str, *operations: str) -> list[Grant]:
    return [Grant(f"User:{principal}", resource, name, operation) for operation in operations]


# Without one of these, a task that starts fails.
OF_TASKS = [
    *rights("writer", "transactional-id", f"{GROUP}-{CONNECTOR}-0", "Write"),
    *rights("writer", "topic", TOPIC, "Write"),
    *rights("writer", "topic", OWN_OFFSETS, "Write"),
    *rights("reader", "topic", OWN_OFFSETS, "Read"),
    *rights("maker", "topic", OWN_OFFSETS, "Describe"),
    *rights("maker", "topic", TOPIC, "Describe"),
    *rights("worker", "topic", f"{GROUP}-offsets", "Read"),
]
# Without one of these, a task that starts fails unless its topics exist.
OF_MAKING = [*rights("maker", "topic", OWN_OFFSETS, "Create"), *rights("maker", "topic", TOPIC, "Create")]
# Without one of these, the leader cannot write.
OF_LEADER = [
    *rights("worker", "transactional-id", f"connect-cluster-{GROUP}", "Write"),
    *rights("worker", "topic", f"{GROUP}-configs", "Read", "Write"),
    *rights("worker", "group", GROUP, "Read"),
]
OF_STATUS = rights("worker", "topic", f"{GROUP}-status", "Read", "Write")
# Without it nothing fails but a copy, or the removal of offsets.
OF_COPIES = rights("worker", "topic", f"{GROUP}-offsets", "Write")
OF_START = [
    *rights("worker", "topic", f"{GROUP}-configs", "Create"),
    *rights("worker", "topic", f"{GROUP}-offsets", "Create"),
    *rights("worker", "topic", f"{GROUP}-status", "Create"),
]


def test_exactly_the_printed_rights_let_a_connector_run_exactly_once(secured: Secured) -> None:
    every = [*OF_TASKS, *OF_MAKING, *OF_LEADER, *OF_STATUS, *OF_COPIES, *OF_START]
    assert sorted(map(str, secured.grants)) == sorted(map(str, every))
    secured.worker.wait_for_tasks(CONNECTOR, "RUNNING", within_s=100)
    deliver(secured, 1000)
    assert f"not authorised to write with transactional id {GROUP}-{CONNECTOR}-0#1" in secured.worker.log_text()


def trace_of_restart(secured: Secured) -> str:
    """Restart the task until it fails: who has read all that there is misses the right to read only after more.

    The first line after a restart may still be sent by the start that is told to end.
    """
    for _ in range(3):
        assert secured.worker.rest.post(f"/connectors/{CONNECTOR}/tasks/0/restart").status_code == 204
        for _ in range(2):
            append(secured, 1)
            eventually(lambda: trace_of(secured.worker, CONNECTOR) or is_delivered(secured), within_s=60)
            if trace := trace_of(secured.worker, CONNECTOR):
                return trace
    raise AssertionError("the task does not miss the right")


@pytest.mark.parametrize("grant", OF_TASKS, ids=str)
def test_a_task_without_a_right_fails_with_the_name_of_the_right(secured: Secured, grant: Grant) -> None:
    secured.worker.wait_for_tasks(CONNECTOR, "RUNNING", within_s=100)
    with revoked(secured, grant):
        trace = trace_of_restart(secured)
    assert_names(trace, grant)
    restart = f"/connectors/{CONNECTOR}/restart?includeTasks=true&onlyFailed=true"
    assert secured.worker.rest.post(restart).status_code == 202
    deliver(secured, 1)


@pytest.mark.parametrize("grant", OF_MAKING, ids=str)
def test_a_task_without_the_right_to_create_topics_fails_with_their_name(secured: Secured, grant: Grant) -> None:
    name = f"new-{OF_MAKING.index(grant)}"
    topic = {OWN_OFFSETS: f"{name}-offsets", TOPIC: f"{name}-read"}
    config = {**secured.config, "topic": topic[TOPIC], "offsets.storage.topic": topic[OWN_OFFSETS]}
    missing = grant._replace(name=topic[grant.name])
    grants = [g for g in granted(secured.worker, name, config) if g not in secured.grants]
    secured.broker.grant([g for g in grants if g != missing])
    assert secured.worker.create(name, config).status_code == 201
    append(secured, 1)
    assert_names(eventually(lambda: trace_of(secured.worker, name), within_s=60), missing)
    secured.broker.grant([missing])
    assert secured.worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    secured.worker.wait_for_tasks(name, "RUNNING")
    assert secured.worker.rest.delete(f"/connectors/{name}").status_code == 204


@pytest.mark.parametrize("grant", OF_LEADER, ids=str)
def test_a_leader_without_a_right_answers_with_the_name_of_the_right(secured: Secured, grant: Grant) -> None:
    config = {**secured.config, "topic": "never"}
    with revoked(secured, grant):
        answer = eventually(lambda: refused(secured.worker, config), within_s=60)
    assert_names(answer, grant)
    eventually(lambda: secured.worker.create("extra", config).status_code in (201, 409), within_s=60)
    assert secured.worker.rest.delete("/connectors/extra").status_code == 204
    deliver(secured, 1)


@pytest.mark.parametrize("grant", OF_STATUS, ids=str)
def test_a_worker_without_a_right_on_the_status_topic_logs_the_right(secured: Secured, grant: Grant) -> None:
    told = len(secured.worker.log_text())
    with revoked(secured, grant):
        assert secured.worker.rest.put(f"/connectors/{CONNECTOR}/pause").status_code == 202
        line = eventually(lambda: denied_line(secured.worker.log_text()[told:]), within_s=60)
        assert secured.worker.rest.put(f"/connectors/{CONNECTOR}/resume").status_code == 202
    assert_names(line, grant)
    secured.worker.wait_for_tasks(CONNECTOR, "RUNNING")
    deliver(secured, 1)


@pytest.mark.parametrize("grant", OF_COPIES, ids=str)
def test_an_offset_reset_that_is_denied_names_the_missing_right(secured: Secured, grant: Grant) -> None:
    """The tombstone of a connector with an offsets topic of its own comes first in the worker's (E7)."""
    forget = {"offsets": [{"partition": {"filename": "of-another-day.txt"}, "offset": None}]}
    url = f"/connectors/{CONNECTOR}"
    assert secured.worker.rest.put(f"{url}/stop").status_code == 204
    secured.worker.wait_for_tasks(CONNECTOR)
    with revoked(secured, grant):
        answer = secured.worker.rest.patch(f"{url}/offsets", json=forget)
        assert answer.status_code == 500
    assert_names(answer.json()["message"], grant)
    eventually(lambda: secured.worker.rest.patch(f"{url}/offsets", json=forget).status_code == 200)
    assert secured.worker.rest.put(f"{url}/resume").status_code == 202
    secured.worker.wait_for_tasks(CONNECTOR, "RUNNING")
    deliver(secured, 1)


def test_a_stream_runs_with_required_rights_and_fences_others_once_permitted(
    secured: Secured, broker: SecuredKafka
) -> None:
    """E20: without the optional right whoever is not of the connector is waited for; a right counts at once."""
    target, url = f"{TOPIC}-again", "/connectors/again"
    plain = {"bootstrap.servers": broker.kafka.internal_servers}
    Admin(plain).topics.create(target, partitions=1, replication=1)
    config = {"connector.class": "TopicTransform", "topics": TOPIC, "output.topic": target}
    broker.grant(granted(secured.worker, "again", config))
    assert secured.worker.create("again", config).status_code == 201
    deliver(secured, 10)

    def written() -> int:
        return len(CommittedReader(broker.kafka.internal_servers, [target]).read_all(30))

    eventually(lambda: written() == len(lines(secured)), within_s=100)
    assert secured.worker.rest.put(f"{url}/stop").status_code == 204
    secured.worker.wait_for_tasks("again")
    patient = {**plain, "transaction.timeout.ms": "600000"}  # it is the task that ends it, and not the broker
    zombie = TransactionalWriter(transactional_conf(patient, "zombie").conf, "zombie")
    zombie.open()
    zombie.send_group_offsets([GroupOffset(TOPIC, 0, 1)], memberless("connect-again"))
    assert secured.worker.rest.put(f"{url}/resume").status_code == 202
    waiting = eventually(lambda: told_of(secured.worker, "again", "Waits: "), within_s=60)
    assert f"{TOPIC}-0" in waiting
    assert "Grant Read on it" in secured.worker.log_text()
    broker.grant(rights("writer", "topic", "__consumer_offsets", "Read"))
    broker.grant(rights("writer", "transactional-id", "zombie", "Write", "Describe"))
    assert "zombie (producer" in eventually(lambda: told_of(secured.worker, "again", "Fenced "), within_s=60)
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        zombie.commit()
    zombie.close()
    deliver(secured, 10)
    eventually(lambda: written() == len(lines(secured)), within_s=100)
    assert secured.worker.rest.delete(url).status_code == 204


def told_of(worker: Worker, connector: str, beginning: str) -> str:
    """Return what the status of the task, which runs, says, if it begins so."""
    tasks = worker.status(connector).get("tasks", [])
    return next((t["trace"] for t in tasks if t["state"] == "RUNNING" and t.get("trace", "").startswith(beginning)), "")


STARTS = [*OF_START, *OF_LEADER, *OF_STATUS] if IS_LONG else [OF_START[0], OF_LEADER[-1]]
EXIT = [g for g in STARTS if g.resource != "transactional-id" and g != OF_STATUS[1]]


@pytest.mark.parametrize("grant", EXIT, ids=str)
def test_a_worker_without_a_right_exits_with_the_name_of_the_right(
    broker: SecuredKafka, secured: Secured, grant: Grant, tmp_path: Path
) -> None:
    group = f"start-{EXIT.index(grant)}"
    worker = LightWorker(broker.kafka.bootstrap_servers, tmp_path, settings(broker.client), group=group)
    worker.write_file()
    missing = grant._replace(name=grant.name.replace(GROUP, group))
    grants = [g for g in granted(worker, "c", secured.config) if g.principal == "User:worker"]
    assert missing in grants
    broker.grant([g for g in grants if g != missing])
    worker.launch()
    try:
        assert worker.process is not None
        assert worker.process.wait(240) == 1, worker.log_text()
    finally:
        if worker.process is not None and worker.process.poll() is None:
            worker.kill()
    assert_names(worker.log_text().partition("the worker cannot start: ")[2], missing)


def test_a_task_with_a_wrong_password_fails_and_says_so(secured: Secured) -> None:
    client = secured.broker.client("other")
    wrong = client["sasl.jaas.config"].replace(PLAIN_USERS["other"], "hush-wrong-4716")
    own = {"producer.override.sasl.mechanism": "PLAIN", "producer.override.sasl.jaas.config": wrong}
    config = {**secured.config, **own, "offsets.storage.topic": OWN_OFFSETS}
    assert secured.worker.create("stranger", config).status_code == 201
    trace = eventually(lambda: trace_of(secured.worker, "stranger"), within_s=60)
    assert "SASL Authentication failed" in trace
    assert "hush" not in trace + secured.worker.log_text()
    assert secured.worker.rest.delete("/connectors/stranger").status_code == 204


def test_a_worker_with_a_wrong_password_waits_and_says_so(broker: SecuredKafka, tmp_path: Path) -> None:
    client = broker.client("worker")
    client["sasl.jaas.config"] = client["sasl.jaas.config"].replace(USERS["worker"], "hush-wrong-4716")
    worker = LightWorker(broker.kafka.bootstrap_servers, tmp_path, client, group="wrong")
    worker.launch()
    try:
        eventually(lambda: "Kafka refused the credentials" in worker.log_text(), within_s=60)
        assert "hush" not in worker.log_text()
    finally:
        worker.stop()


def _batch_writer(broker: SecuredKafka, user: str, **changed: str) -> TransactionalWriter:
    properties = {"bootstrap.servers": broker.kafka.bootstrap_servers, "client": "batch", **broker.client(user)}
    return TransactionalWriter(transactional_conf(properties | changed, f"batch-{user}").conf, f"batch-{user}")


@pytest.mark.parametrize("user", ["writer", "maker"], ids=["PLAIN", "SCRAM"])
def test_the_batch_client_logs_in_over_tls_and_writes_only_permitted_topics(broker: SecuredKafka, user: str):
    topic = f"by-{user}"
    broker.grant([*rights(user, "transactional-id", f"batch-{user}", "Write"), *rights(user, "topic", topic, "Create")])
    broker.grant(rights(user, "topic", topic, "Write"))
    writer = _batch_writer(broker, user)
    writer.open()
    writer.send(topic, b"written")
    writer.commit()
    with pytest.raises(ProduceError, match="TOPIC_AUTHORIZATION_FAILED") as denied:
        writer.send("forbidden", b"x")
    assert denied.value.is_denied
    writer.close()
    found = CommittedReader(broker.kafka.internal_servers, [topic]).read_all(20)
    assert [seen.value for seen in found] == [b"written"]


@pytest.mark.parametrize("user", ["other", "reader"], ids=["PLAIN", "SCRAM"])
def test_the_batch_client_reports_a_refused_login_without_secrets(
    broker: SecuredKafka, user: str, tmp_path: Path, caplog
):
    caplog.set_level("DEBUG", "fencepost")
    right = broker.client(user)["sasl.jaas.config"]
    wrong = right.replace("hush-", "hush-wrong-")
    another = tmp_path / "another.pem"  # not every machine has authorities that it trusts by itself
    key_store(tmp_path, another)
    for changed, said in (
        ({"sasl.jaas.config": wrong}, "SASL_AUTHENTICATION_FAILED"),
        ({}, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ({"ssl.truststore.location": str(another)}, "certificate verify failed"),
    ):
        writer = _batch_writer(broker, user, **changed)
        with pytest.raises(WriterOpenError, match=said) as denied:
            writer.open()
        writer.close()
        assert denied.value.is_denied
        assert not denied.value.is_passing
        assert not any(secret in f"{denied.value} {caplog.text}" for secret in (*SECRETS, "hush-wrong"))
