"""SASL's OAUTHBEARER: every client of a worker gets in with tokens that it asks for."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from secured_case import CONNECTOR, ROLES, TOPIC, Secured, deliver, granted, settings

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.wire.oauth_tokens import token_provider
from fencepost.testing import eventually
from fencepost.transaction import (
    CommitUnknownError,
    TransactionalWriter,
    WriterFencedError,
    WriterOpenError,
)
from support.cluster import LightWorker
from support.secured import Grant, SecuredKafka
from support.tokens import TokenServer

CLIENTS = {
    "worker": "hush-worker-4721",
    "maker": "hush-maker-4722",
    "reader": "hush-reader-4723",
    "writer": "hush-writer-4724",
}


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenServer]:
    with TokenServer(CLIENTS) as running:
        yield running


def writer_conf(broker: SecuredKafka, login: Mapping[str, str], id_: str, client: str = "batch") -> dict[str, Any]:
    given = {"bootstrap.servers": broker.kafka.bootstrap_servers, "client": client, **broker.channel, **login}
    return dict(transactional_conf(given, id_).conf)


def open_once(conf: dict[str, Any], id_: str, within_s: float = 60.0) -> None:
    with closing(TransactionalWriter(conf, id_)) as writer:
        writer.open(within_s)


@pytest.mark.parametrize("client", ["auto", "librdkafka"])
def test_a_worker_and_its_task_log_in_with_tokens(
    client: str, broker: SecuredKafka, tokens: TokenServer, tmp_path: Path
) -> None:
    found = settings(lambda user: {**broker.channel, **tokens.login(user)})
    worker = LightWorker(broker.kafka.bootstrap_servers, tmp_path, found, group=f"tokens-{client}")
    file, topic = tmp_path / "lines.txt", f"{TOPIC}-{client}"
    file.write_text("")
    config = {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": topic,
        "offsets.storage.topic": f"{CONNECTOR}-{client}-offsets",
        "producer.client": client,
        "topic.creation.default.partitions": 1,
        "topic.creation.default.replication.factor": 1,
    }
    worker.write_file()
    # What a principal is called stands in the token, which `fencepost acls` does not ask for.
    named = [f"--principal={role}=User:{user}" for role, user in {"worker": "worker", **ROLES}.items()]
    grants = granted(worker, CONNECTOR, config, *named)
    broker.grant(grants)
    with worker:
        assert worker.create(CONNECTOR, config).status_code == 201
        worker.wait_for_tasks(CONNECTOR, "RUNNING", within_s=100)
        deliver(Secured(broker, worker, config, file, grants), 500)
        log = worker.log_text()
    assert ("writes with the batch client" in log) is (client == "auto")
    assert not [secret for secret in CLIENTS.values() if secret in log]
    assert set(CLIENTS) <= set(tokens.asked)


@pytest.mark.parametrize("client", ["batch", "librdkafka"])
def test_a_worker_that_gets_no_token_reports_it_and_continues_once_it_gets_one(
    client: str, broker: SecuredKafka, tokens: TokenServer
) -> None:
    broker.grant([Grant("User:writer", "transactional-id", f"lone-{client}", "Write")])
    id_ = f"lone-{client}"
    wrong = writer_conf(broker, tokens.login("writer", "hush-wrong"), id_, client)
    reason = f"{tokens.url} gives no token: it answered with status 401" if client == "batch" else ""
    refusals: list[str] = []

    def is_refused_with_reason() -> bool:
        with pytest.raises(WriterOpenError) as refused:
            open_once(wrong, id_, 12.0)
        refusals.append(str(refused.value))
        return reason in refusals[-1]

    eventually(is_refused_with_reason, within_s=60)  # a slow machine may be too slow to ask for a token in time
    assert not [each for each in refusals if "hush" in each]
    open_once(writer_conf(broker, tokens.login("writer"), id_, client), id_)


def test_a_token_that_the_broker_refuses_is_not_used_again(broker: SecuredKafka, tokens: TokenServer) -> None:
    broker.grant([Grant("User:writer", "transactional-id", "lone-refused", "Write")])
    conf = writer_conf(broker, tokens.login("writer"), "lone-refused")
    provider = token_provider(conf)
    provider.forget(provider.newest)  # that of the tests before
    tokens.ends_s = -3600.0  # what stands in the token, whatever is said of it
    try:
        with pytest.raises(WriterOpenError, match="SASL_AUTHENTICATION_FAILED"):
            open_once(conf, "lone-refused")
    finally:
        tokens.ends_s = None
    open_once(conf, "lone-refused")


@pytest.mark.parametrize("client", ["batch", "admin"])
def test_a_cached_token_that_the_broker_refuses_is_replaced_by_a_new_token(
    client: str, broker: SecuredKafka, tokens: TokenServer
) -> None:
    """As when the keys change that tokens are signed with: every task would fail at once."""
    broker.grant([Grant("User:writer", kind, "lone-kept", "All") for kind in ("transactional-id", "group")])
    conf = writer_conf(broker, tokens.login("writer"), "lone-kept")
    provider = token_provider(conf)
    provider.forget(provider.newest)
    tokens.ends_s = -3600.0
    try:
        kept = provider.token()
    finally:
        tokens.ends_s = None
    if client == "batch":
        open_once(conf, "lone-kept")
    else:
        eventually(lambda: GroupOffsets(conf, "lone-kept").read() == {}, within_s=60)  # on a broker with no group yet
    assert provider.newest not in ("", kept)


def test_e2_a_transactional_id_is_locked_out_where_principals_log_in(broker: SecuredKafka, tokens: TokenServer) -> None:
    topic = f"{TOPIC}-locked"
    Admin({"bootstrap.servers": broker.kafka.internal_servers}).topics.create(topic, partitions=1, replication=1)
    broker.grant(
        [Grant("User:writer", "transactional-id", "lone-locked", "All"), Grant("User:writer", "topic", topic, "All")]
    )
    conf = writer_conf(broker, tokens.login("writer"), "lone-locked")
    with (
        closing(TransactionalWriter(conf, "lone-locked")) as holder,
        closing(TransactionalWriter(conf, "lone-locked")) as other,
    ):
        holder.open(60.0)
        holder.send(topic, b"0")
        holder.commit()
        assert other.lock_out(60.0)
        holder.send(topic, b"1")
        with pytest.raises((WriterFencedError, CommitUnknownError)):
            holder.commit()
