"""Two workers that speak only TLS, with client certificates, passwords and roles: they go on talking to each other."""

import random
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from cryptography.x509 import load_pem_x509_certificate

from fencepost.cluster.session_key import (
    ALGORITHM,
    NONCE,
    SIGNATURE,
    TIME,
    WINDOW_MS,
    body_signature,
    for_caller,
    signed_headers,
)
from fencepost.embedded import EmbeddedKafka
from fencepost.rest.access.basic import hashed
from fencepost.rest.access.need import CALLER, encoded
from fencepost.rest.access.principal import Principal
from fencepost.storage.change import SessionKey
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from support.authority import Authority
from support.cluster import Cluster, url
from support.long_form import IS_LONG
from support.worker import Worker

_ALGORITHM = "HmacSHA256"
_OTHER_PLACES = (("POST", "/connectors/other/tasks"), ("PUT", "/connectors/other/fence"), ("GET", "/internal/figures"),
                 ("DELETE", "/connectors/kept"), ("DELETE", "/connectors/kept/offsets"))  # fmt: skip


@dataclass(frozen=True)
class Call:
    """An internal request; `caller` is the name of whom it is forwarded for."""

    method: str
    target: str
    body: bytes = b""
    caller: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def signed(self, key: SessionKey, audience: str, *, ago_ms: int = 0, method: str | None = None) -> "Call":
        """Return it as a worker sends it to another."""
        stated = None if self.caller is None else encoded(Principal(self.caller))
        signed = signed_headers(
            key, _ALGORITHM, method or for_caller(self.method, stated), self.target, self.body, audience=audience,
            time_ms=int(time.time() * 1000) - ago_ms, nonce=uuid.uuid4().hex,
        )  # fmt: skip
        more = {} if stated is None else {CALLER: stated}
        return replace(self, headers={**signed, **more, "content-type": "application/json"})

    def having(self, **headers: str) -> "Call":
        return replace(self, headers={**self.headers, **headers})

    def lacking(self, *names: str) -> "Call":
        return replace(self, headers={name: value for name, value in self.headers.items() if name not in names})


@dataclass(frozen=True)
class Forger:
    """Makes wrong requests of good ones; `other` is another worker's incarnation."""

    key: SessionKey
    audience: str
    other: str
    random: random.Random

    def good(self, call: Call) -> Call:
        return call.signed(self.key, self.audience)

    def forged(self, call: Call, number: int) -> Call:
        """Return the request with one thing wrong, which the number chooses."""
        return _WAYS[number % len(_WAYS)](self, call)


def _elsewhere(forger: Forger, call: Call) -> Call:
    method, target = forger.random.choice([place for place in _OTHER_PLACES if place != (call.method, call.target)])
    return replace(forger.good(call), method=method, target=target)


def _of_another_time(forger: Forger, call: Call) -> Call:
    ago_ms = forger.random.choice((1, -1)) * (WINDOW_MS + forger.random.randint(20_000, 10**9))
    return call.signed(forger.key, forger.audience, ago_ms=ago_ms)


def _with_other_key(forger: Forger, call: Call) -> Call:
    return call.signed(SessionKey(forger.random.randbytes(32), _ALGORITHM, 0), forger.audience)


def _changed(name: str) -> Callable[[Forger, Call], Call]:
    def change(forger: Forger, call: Call) -> Call:
        good = forger.good(call)
        return good.having(**{name: good.headers[name] + forger.random.choice("019")})

    return change


def _bare(*names: str) -> Callable[[Forger, Call], Call]:
    return lambda forger, call: forger.good(call).lacking(*names)


def _of_body_only(forger: Forger, call: Call) -> Call:
    signature = body_signature(forger.key, _ALGORITHM, call.body)
    return forger.good(call).lacking(TIME, NONCE).having(**{SIGNATURE: signature})


def _for_another(forger: Forger, call: Call) -> Call:
    """Return it for another caller than the signature has; for one at all, if it is a worker's own."""
    stated = encoded(Principal("alice" if call.caller is None else "root", frozenset({"admin"})))
    return forger.good(call).having(**{CALLER: stated}) if call.caller else _elsewhere(forger, call)


def _as_another_kind(forger: Forger, call: Call) -> Call:
    """Return it with the signature of a worker's own request if it is for a caller, and the other way round."""
    method = call.method if call.caller else for_caller(call.method, encoded(Principal("alice")))
    return call.signed(forger.key, forger.audience, method=method)


_WAYS: tuple[Callable[[Forger, Call], Call], ...] = (
    _elsewhere,
    _of_another_time,
    _with_other_key,
    _of_body_only,
    _for_another,
    _as_another_kind,
    lambda forger, call: call.signed(forger.key, forger.other),
    lambda forger, call: replace(forger.good(call), body=call.body + b" "),
    lambda forger, call: replace(forger.good(call), target=call.target + ("&" if "?" in call.target else "?") + "a=b"),
    lambda forger, call: forger.good(call).having(
        **{ALGORITHM: forger.random.choice(("HmacSHA512", "HmacMD5", "none"))}
    ),
    lambda forger, call: forger.good(call).having(**{SIGNATURE: forger.random.randbytes(32).hex()}),
    *map(_changed, (SIGNATURE, TIME, NONCE)),
    *map(_bare, (SIGNATURE, TIME, NONCE, ALGORITHM)),
    _bare(SIGNATURE, TIME, NONCE, ALGORITHM),
)
WAYS = len(_WAYS)


CONFIG = {
    "connector.class": "Datagen",
    "topic": "made",
    "fields": "id:sequence",
    "rows.per.second": "1",
    "tasks.max": "4",
}
PASSWORDS = {"alice": "of alice only", "bob": "of bob only"}
ROLES = "user:alice admin *\nuser:bob operate made-*\n"
HOST = "127.0.0.1"


class Place:
    """The files of the cluster, and ways to call its workers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.store = Path(
            self.authority.issue("CN=worker,O=Acme", HOST).pkcs12(directory / "worker.p12", "of the store")
        )
        self.authority.bundle(directory / "ca.pem")
        (directory / "users").write_text(f"alice={hashed(PASSWORDS['alice'])}\nbob={PASSWORDS['bob']}\n")
        (directory / "roles").write_text(ROLES)
        own = self.authority.issue("CN=somebody").pem(directory / "client.pem")
        self.tls = ssl.create_default_context(cafile=directory / "ca.pem")
        self.tls.load_cert_chain(own)

    def protect(self, worker: Worker) -> None:
        url = f"https://{HOST}:{worker.port}"
        https = "listeners.https.ssl."
        worker.properties |= {
            "listeners": url,
            f"{https}keystore.location": str(self.store),
            f"{https}keystore.password": "of the store",
            f"{https}truststore.location": str(self.directory / "ca.pem"),
            f"{https}client.auth": "required",
            "rest.basic.users.file": str(self.directory / "users"),
            "rest.roles.file": str(self.directory / "roles"),
        }
        worker.rest = self.client(worker, "alice")

    def client(self, worker: Worker, name: str) -> httpx.Client:
        url = f"https://{HOST}:{worker.port}"
        return httpx.Client(base_url=url, verify=self.tls, auth=(name, PASSWORDS[name]), timeout=100, trust_env=False)

    def nobody(self, worker: Worker) -> httpx.Client:
        """Return a client that has a certificate, as the listener asks for one, and nothing else."""
        return httpx.Client(base_url=f"https://{HOST}:{worker.port}", verify=self.tls, timeout=100, trust_env=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("protected"))


@pytest.fixture(scope="module")
def protected(kafka: EmbeddedKafka, place: Place) -> Iterator[Cluster]:
    cluster = Cluster(kafka.bootstrap_servers, place.directory, f"g-{uuid.uuid4().hex[:6]}", 2)
    for worker in cluster.workers:
        place.protect(worker)
    with cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def workers(protected: Cluster) -> Iterator[list[Worker]]:
    yield protected.workers
    eventually(lambda: all(map(_is_cleared, protected.workers)), within_s=60)


def _is_cleared(worker: Worker) -> bool:
    """Delete the connectors that a worker knows: what another one has just made may not be among them yet."""
    names = worker.rest.get("/connectors").json()
    for name in names:
        assert worker.rest.delete(f"/connectors/{name}").status_code in (204, 404)
    return not names


def test_protected_workers_share_tasks_and_forward_requests(workers: list[Worker], place: Place) -> None:
    first, second = workers
    for number, worker in enumerate(workers):  # one of them has to forward it
        assert worker.create(f"made-{number}", CONFIG).status_code == 201
    owners = eventually(lambda: _owners(first, "made-0", 4), within_s=120)
    assert len(set(owners)) == 2

    bobs = [place.client(worker, "bob") for worker in workers]
    eventually(lambda: [bob.get("/connectors").json() for bob in bobs] == [["made-0", "made-1"]] * 2, within_s=60)
    assert [bob.put("/connectors/made-0/stop").status_code for bob in bobs] == [204, 204]
    assert [bob.delete("/connectors/made-0").status_code for bob in bobs] == [403, 403]
    assert [worker.rest.delete(f"/connectors/made-{n}").status_code for n, worker in enumerate(workers)] == [204, 204]
    eventually(lambda: [bob.get("/connectors").json() for bob in bobs] == [[], []], within_s=60)

    forged = {"x-fencepost-caller": "eyJuYW1lIjogImFsaWNlIiwgImdyb3VwcyI6IFtdfQ=="}
    with httpx.Client(base_url=second.rest.base_url, verify=place.tls, timeout=100) as nobody:
        assert nobody.get("/connectors").json() == []  # a certificate names a caller, too, who has no role
        assert nobody.delete("/connectors/made-0").status_code == 403
        assert nobody.get("/connectors", auth=("alice", "wrong")).status_code == 401
        assert nobody.put("/connectors/made-0/fence").status_code == 400
        assert nobody.delete("/connectors/made-0", headers=forged).status_code == 400
    with pytest.raises(httpx.TransportError):  # no certificate
        httpx.get(second.rest.base_url, verify=ssl.create_default_context(cafile=place.directory / "ca.pem"))

    before = _serial(first)
    renewed = place.authority.issue("CN=worker,O=Acme", HOST)
    renewed.pkcs12(place.store, "of the store")
    assert _serial(first) == renewed.certificate.serial_number != before
    assert all(worker.create(f"made-{n}", CONFIG).status_code == 201 for n, worker in enumerate(workers))

    logs = first.log_text() + second.log_text()
    assert 'user="bob" address=127.0.0.1 method=DELETE path="/connectors/made-0" status=403' in logs
    assert not [text for text in (*PASSWORDS.values(), "of the store") if text in logs]


def _owners(worker: Worker, name: str, tasks: int) -> list[str]:
    running = [task["worker_id"] for task in worker.status(name).get("tasks", []) if task["state"] == "RUNNING"]
    return running if len(running) == tasks else []


def _serial(worker: Worker) -> int:
    pem = ssl.get_server_certificate((HOST, worker.port))
    return load_pem_x509_certificate(pem.encode()).serial_number


FORGED = 5_000 if IS_LONG else 500
OWN = [
    Call("GET", "/internal/figures"),
    Call("GET", "/internal/logs?connector=kept&level=0&limit=500"),
    Call("PUT", "/connectors/kept/fence"),
    Call("POST", "/connectors/kept/tasks", b'[{"task.class":"x"}]'),
]
FORWARDED = [
    Call("GET", "/connectors/kept/status?forward=true", caller="alice"),
    Call("DELETE", "/connectors/kept?forward=true", caller="alice"),
    Call("PUT", "/connectors/kept/stop?forward=true", caller="alice"),
    Call("PUT", "/connectors/kept/config?forward=true", b'{"connector.class":"FileStreamSource"}', caller="alice"),
    Call("PATCH", "/connectors/kept/offsets?forward=true", b'{"offsets":[]}', caller="alice"),
]
HARMLESS = [OWN[0], OWN[1], FORWARDED[0]]


def test_forged_and_replayed_calls_are_refused_by_each_worker(
    protected: Cluster, workers: list[Worker], place: Place, seed: int
) -> None:
    """By both, at their real addresses: calls that are wrong in one thing, and those that were taken a moment ago."""
    print(f"FENCEPOST_CHAOS_SEED={seed}")
    first, second = workers
    assert first.create("kept", CONFIG).status_code == 201
    eventually(lambda: _owners(first, "kept", 4), within_s=120)
    before = _snapshot(protected)
    assert before.session_key is not None
    of = {id(worker): before.incarnations[url(worker).replace("http:", "https:")] for worker in workers}
    counts = {"forged": 0, "replayed": 0}
    with ExitStack() as stack:
        for worker, other in ((first, second), (second, first)):
            here, there = (stack.enter_context(place.nobody(each)) for each in (worker, other))
            forger = Forger(before.session_key, of[id(worker)], of[id(other)], random.Random(seed))
            for call in HARMLESS:
                taken = forger.good(call)
                assert _sent(here, taken) == 200
                for rest in (here, there, here):
                    assert _sent(rest, taken) == 403, taken
                    counts["replayed"] += 1
            for number in range(FORGED // 2):
                call = (OWN + FORWARDED)[number // WAYS % len(OWN + FORWARDED)]
                assert _sent(here, forged := forger.forged(call, number)) in (400, 401, 403), forged
                counts["forged"] += 1
    print(counts)
    after = _snapshot(protected)
    for part in ("connectors", "target_states", "task_counts", "commit_offsets", "task_count_records", "session_key"):
        assert getattr(after, part) == getattr(before, part), part
    assert sorted(first.rest.get("/connectors").json()) == ["kept"]
    assert [first.status("kept")["connector"]["state"], *first.task_states("kept")] == ["RUNNING"] * 5


def _sent(rest: httpx.Client, call: Call) -> int:
    return rest.request(call.method, call.target, content=call.body, headers=dict(call.headers)).status_code


def _snapshot(cluster: Cluster) -> ClusterSnapshot:
    topic = ConfigTopic({"bootstrap.servers": cluster.bootstrap}, f"{cluster.group}-configs")
    try:
        return topic.start(60)
    finally:
        topic.stop()
