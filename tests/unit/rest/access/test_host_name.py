"""A worker that asks no credentials is called by its own names alone: pages cannot lead theirs to it."""

import logging
import socket

import pytest
from starlette.testclient import TestClient

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.rest import create_app
from fencepost.rest.access.origin import HostNames
from rest.fake import FakeWorker
from support.settings import SETTINGS

NAMES = frozenset({"worker.example"})


@pytest.fixture
def client(worker: FakeWorker) -> TestClient:
    return TestClient(HostNames(create_app(worker.operations), NAMES))


@pytest.mark.parametrize(
    "host",
    ["localhost:8083", "LOCALHOST", "localhost.", "a.localhost:1", "127.0.0.1:8083", "10.1.2.3", "[::1]:8083", "[::1]",
     "[fe80::1%25eth0]:1", "worker.example:8083", "Worker.Example.", ""],
)  # fmt: skip
def test_own_names_and_addresses_are_answered(client: TestClient, host: str) -> None:
    for path in ("/", "/connectors", "/ui", "/health"):
        assert client.get(path, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:8083", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost",
     "worker.example.evil.example", "evil.worker.example", "[evil.example]", "127.0.0.1@evil.example"],
)  # fmt: skip
def test_a_stranger_s_name_reads_and_changes_nothing(client: TestClient, worker: FakeWorker, host: str) -> None:
    same_origin = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    for path in ("/", "/connectors/file/config", "/ui", "/ui/assets/icon.svg", "/admin/loggers", "/internal/figures"):
        answer = client.get(path, headers=same_origin)
        assert answer.status_code == 403, path
        assert "rest.host.names" in answer.json()["message"]
    assert client.put("/connectors/file/config", headers=same_origin, json={}).status_code == 403
    assert client.put("/connectors/file/stop", headers=same_origin).status_code == 403
    assert client.put("/connectors/file/fence", headers=same_origin).status_code == 403
    assert worker.calls == []
    assert worker.connectors["file"].state == "RUNNING"


def test_refused_host_name_is_in_audit_log_and_access_log(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("fencepost.rest.access", "fencepost.rest.audit"):  # a test before may have set levels of their own
        caplog.set_level(logging.INFO, name)
    with caplog.at_level(logging.INFO, "fencepost.rest"):
        client.put("/connectors/file/stop", headers={"host": "evil.example"})
        client.get("/connectors", headers={"host": "evil.example"})
    lines = [(record.name.rpartition(".")[2], record.getMessage()) for record in caplog.records]
    assert [name for name, _ in lines] == ["audit", "access", "access"]
    assert lines[0][1] == 'user=- address=testclient method=PUT path="/connectors/file/stop" status=403'


def names(listeners: str, **more: str) -> list[set[str] | None]:
    config = WorkerConfig({**SETTINGS, "listeners": listeners, **more})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "Vm-1")
        found = [config.names_of(one) for one in config.rest_listeners]
    return [None if each is None else set(each) for each in found]


def test_on_loopback_only_a_worker_s_own_names_count() -> None:
    own = "http://127.0.0.1:8083"
    assert names(own) == [{"127.0.0.1", "vm-1"}]
    assert names(own, **{"rest.advertised.host.name": "Worker.example"}) == [{"127.0.0.1", "worker.example"}]
    assert names(own, **{"rest.host.names": "Proxy.example, connect"}) == [
        {"127.0.0.1", "vm-1", "proxy.example", "connect"}
    ]
    assert names(own, **{"rest.host.names": "*"}) == [None]


def test_public_listener_accepts_any_host_name_unless_names_are_configured() -> None:
    assert names("http://0.0.0.0:8083,http://localhost:1") == [None, {"0.0.0.0", "localhost", "vm-1"}]
    # other workers call it by the name of its machine
    assert names("http://:8083", **{"rest.host.names": "connect"}) == [{"connect", "vm-1"}]


def test_https_listener_accepts_every_host_name() -> None:
    assert names("https://127.0.0.1:8083", **{"rest.host.names": "connect"}) == [None]


@pytest.mark.parametrize("text", ["http://connect", "connect:8083", "a b", "*.example"])
def test_malformed_host_name_setting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"rest\.host\.names"):
        WorkerConfig({**SETTINGS, "rest.host.names": text})
