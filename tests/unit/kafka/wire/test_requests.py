"""The client for requests: how often it connects, what it keeps, and what waiting threads get."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from confluent_kafka import KafkaError
from kafka.protocol.metadata import MetadataResponse

from fencepost.kafka.errors import AnswerError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group import group_admin
from fencepost.kafka.group.group_admin import Group, GroupAdmin
from fencepost.kafka.wire.cluster import Cluster, text_of_id
from fencepost.kafka.wire.requests import RequestClient
from support.secured import key_store


@contextmanager
def hanging_up() -> Iterator[tuple[str, list[int]]]:
    """Yield the address of a server that closes every connection, as a proxy without a broker does, and its clients."""
    came: list[int] = []

    def serve() -> None:
        while True:
            try:
                connection, (_, port) = server.accept()
            except OSError:
                return
            came.append(port)
            connection.close()

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}", came
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_server_that_closes_connections_is_retried_with_back_off() -> None:
    """Nothing was sent but what precedes any request, so the request may still be sent."""
    with hanging_up() as (address, came), closing(RequestClient({"bootstrap.servers": address}, timeout_s=3)) as client:
        for _ in range(5):  # a process that stands still for these seconds calls once
            came.clear()
            with pytest.raises(KafkaUnavailableError, match="while asking"):
                client.run("asking", client.brokers)
            if len(came) > 1:
                break
        assert 1 < len(came) < 20


def test_missing_certificate_is_retried_only_if_it_was_present_before(
    tmp_path: Path,
) -> None:
    authority = tmp_path / "ca.pem"
    with hanging_up() as (address, _):
        conf = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": str(authority)}
        with closing(RequestClient(conf, timeout_s=1)) as client:
            with pytest.raises(KafkaRequestError, match=r"settings of a client cannot be used: .*No such file"):
                client.run("asking", client.brokers)
            key_store(tmp_path, authority)
            with pytest.raises(KafkaUnavailableError, match="while asking"):
                client.run("asking", client.brokers)
            authority.unlink()
            with pytest.raises(KafkaUnavailableError, match=r"settings of a client cannot be used: .*No such file"):
                client.run("asking", client.brokers)


def test_interrupted_request_leaves_no_stale_answer_for_waiting_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """At one moment: a thread that came while another asked takes the result of that."""
    other, own = (Group(name, "Stable", ()) for name in ("other", "own"))
    answers: list[Group | BaseException] = [other, KeyboardInterrupt(), own]

    def run(*_: object) -> Group:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(RequestClient, "run", run)
    monkeypatch.setattr(group_admin, "time", SimpleNamespace(monotonic=lambda: 1.0))
    admin = GroupAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=1)
    assert admin.describe("other") == other
    with pytest.raises(KeyboardInterrupt):
        admin.describe("own")
    assert admin.describe("own") == own


def test_login_is_delayed_after_refused_credentials() -> None:
    """Callers that ask again every 50 ms, as `Admin` does, must not lock the account."""
    logins: list[float] = []

    def refuse() -> None:
        logins.append(time.monotonic())
        raise AnswerError(KafkaError.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate")

    client = RequestClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=10)
    for _ in range(2):
        with pytest.raises(KafkaUnavailableError, match="refused the credentials"):
            client.run("asking", refuse)
    assert logins[1] - logins[0] > 0.9


def test_number_of_kept_connections_of_many_threads_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Cluster] = []
    monkeypatch.setattr(Cluster, "close", lambda self: closed.append(self))
    client = RequestClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=10)
    all_ask = threading.Barrier(10)

    def ask() -> int:
        return client.run("asking", lambda: all_ask.wait(30))

    with ThreadPoolExecutor(10) as pool:
        for each in [pool.submit(ask) for _ in range(10)]:
            each.result(60)
    assert len(closed) == 6
    client.close()
    assert len(set(closed)) == 10


def test_client_moves_on_from_a_server_that_never_answers() -> None:
    """It has two seconds, and many requests have less: then the next request begins with another server."""
    with socket.create_server(("127.0.0.1", 0)) as silent, hanging_up() as (address, came):
        servers = f"127.0.0.1:{silent.getsockname()[1]},{address}"
        with closing(RequestClient({"bootstrap.servers": servers}, timeout_s=0.5)) as client:
            for _ in range(20):  # the second, unless this process stands still just then
                with pytest.raises(KafkaUnavailableError):
                    client.run("asking", client.brokers)
                if came:
                    break
        assert came


def test_leaders_older_than_the_known_ones_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was cut off still believes that it leads, and would report a wrong end of its log."""

    def metadata(epoch: int) -> MetadataResponse:
        of_topic = MetadataResponse.MetadataResponseTopic
        partition = of_topic.MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=epoch)
        topic = of_topic(error_code=0, name="t", topic_id=UUID(int=1), partitions=[partition])
        return MetadataResponse(brokers=[], topics=[topic])

    answers = [metadata(5), AnswerError(KafkaError.NOT_COORDINATOR, "it has moved"), metadata(4), metadata(5)]

    def ask(*_: object, **__: object) -> MetadataResponse:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Cluster, "ask", ask)
    client = RequestClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=1)

    def leader() -> int:
        return int(client.metadata(["t"]).topics[0].partitions[0].leader_epoch)

    assert client.run("asking", leader) == 5
    for error in ("it has moved", "out of date"):
        with pytest.raises(KafkaUnavailableError, match=error):
            client.run("asking", leader)
    assert client.run("asking", leader) == 5


def test_server_that_refused_the_credentials_is_not_asked_first_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be the only one: brokers learn of changed credentials one after another."""
    asked: list[int] = []

    def connect(address: tuple[str, int], *_: object) -> None:
        asked.append(address[1])
        raise AnswerError(KafkaError.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate")

    monkeypatch.setattr("fencepost.kafka.wire.coordinators.connect", connect)
    client = RequestClient({"bootstrap.servers": "a:1,a:2"}, timeout_s=0.01)
    for _ in range(2):
        with pytest.raises(KafkaUnavailableError):
            client.run("asking", client.brokers)
    assert sorted(asked) == [1, 2]


@pytest.mark.parametrize(("id_", "text"), [(None, ""), (UUID(int=0), ""), (UUID(int=1), "AAAAAAAAAAAAAAAAAAAAAQ")])
def test_topics_of_a_cluster_without_topic_ids_have_no_id(id_: UUID | None, text: str) -> None:
    """Else all topics would have the same, and one that was created again would not be known."""
    assert text_of_id(id_) == text
