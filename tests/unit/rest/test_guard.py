import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.testclient import TestClient

from fencepost.rest import create_app
from fencepost.rest.access import guard
from fencepost.rest.access.access import Access, Limits
from fencepost.rest.access.guard import Attempts
from fencepost.rest.access.principal import Checked, Grant, Principal, Role, Rules, UncheckedError
from fencepost.rest.app import RestOptions

from .fake import SIGNATURE, FakeWorker
from .test_need import Anybody


@dataclass
class Passwords:
    """Knows `alice:right`, for `known_for_s`, and counts what it was asked."""

    known_for_s: float = 1e9
    is_away: bool = False
    asked: list[str] = field(default_factory=list)
    scheme: str = "basic"
    challenge: str = 'Basic realm="x"'

    def guessed_name(self, credentials: str) -> str | None:
        return credentials.partition(":")[0]

    def authenticate(self, credentials: str) -> Checked | None:
        self.asked.append(credentials)
        if self.is_away:
            raise UncheckedError("The identity provider does not answer")
        return Checked(Principal("alice"), self.known_for_s) if credentials == "alice:right" else None


RIGHT, WRONG = {"authorization": "bAsIc alice:right"}, {"authorization": "Basic alice:wrong"}


@pytest.fixture
def passwords() -> Passwords:
    return Passwords()


@pytest.fixture
def guarded(worker: FakeWorker, passwords: Passwords) -> TestClient:
    return client_with(worker, Access({"basic": passwords}))


def client_with(worker: FakeWorker, access: Access) -> TestClient:
    return TestClient(create_app(worker.operations, options=RestOptions(access=access)))


def audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "fencepost.rest.audit"]


def test_without_credentials_nothing_is_answered(guarded: TestClient) -> None:
    answer = guarded.get("/connectors")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="x"'
    assert answer.json()["message"].startswith("User cannot access the resource")
    assert guarded.get("/no/such/path").status_code == 401


@pytest.mark.parametrize("header", [WRONG["authorization"], "Basic", "", "Bearer alice:right", "alice:right"])
def test_wrong_credentials_and_other_schemes_are_refused(guarded: TestClient, header: str) -> None:
    answer = guarded.get("/connectors", headers={"authorization": header})
    assert answer.status_code == 401
    assert "alice" not in answer.text


def test_right_credentials_are_checked_once_and_then_remembered(guarded: TestClient, passwords: Passwords) -> None:
    assert [guarded.get("/connectors", headers=RIGHT).json() for _ in range(3)] == [["file"]] * 3
    assert passwords.asked == ["alice:right"]


def test_credentials_are_checked_again_when_they_expire(guarded: TestClient, passwords: Passwords) -> None:
    passwords.known_for_s = 0.0
    assert [guarded.get("/", headers=RIGHT).status_code for _ in range(2)] == [200, 200]
    assert len(passwords.asked) == 2


def test_guessing_caller_has_to_wait_and_a_known_caller_has_not(
    guarded: TestClient, passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "Attempts", lambda **given: Attempts(**{**given, "now_s": lambda: 1_000.0}))
    assert guarded.get("/", headers=RIGHT).status_code == 200
    statuses = [guarded.get("/", headers={"authorization": f"Basic alice:{n}"}).status_code for n in range(40)]
    assert statuses == [401] * 20 + [429] * 20
    assert int(guarded.get("/", headers=WRONG).headers["retry-after"]) > 0
    assert len(passwords.asked) < 30
    assert guarded.get("/", headers=RIGHT).status_code == 200


def test_guesses_at_one_name_do_not_lock_out_other_users_of_the_same_address(
    guarded: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "Attempts", lambda **given: Attempts(**{**given, "now_s": lambda: 1_000.0}))
    guesses = [{"authorization": f"Basic bob:{number}"} for number in range(30)]
    assert [guarded.get("/", headers=each).status_code for each in guesses][-1] == 429
    assert guarded.get("/", headers=RIGHT).status_code == 200


def test_guesses_at_new_names_are_bounded_by_address_and_keep_no_user_out(
    guarded: TestClient, passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "Attempts", lambda **given: Attempts(**{**given, "now_s": lambda: 1_000.0}))
    passwords.known_for_s = 0.0  # so that a right password is checked each time
    assert guarded.get("/", headers=RIGHT).status_code == 200
    guesses = [{"authorization": f"Basic user{number}:x"} for number in range(100)]
    assert [guarded.get("/", headers=each).status_code for each in guesses] == [401] * 60 + [429] * 40
    assert len(passwords.asked) == 61
    assert guarded.get("/", headers=RIGHT).status_code == 200


def test_tokens_that_are_refused_do_not_count_as_guesses(guarded: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Passwords, "guessed_name", lambda *_: None)
    assert {guarded.get("/", headers=WRONG).status_code for _ in range(40)} == {401}


def test_absent_identity_provider_is_not_counted_as_a_wrong_password(guarded: TestClient, passwords: Passwords) -> None:
    passwords.is_away = True
    answer = guarded.get("/", headers=RIGHT)
    assert (answer.status_code, answer.json()["message"]) == (503, "The identity provider does not answer")
    passwords.is_away = False
    assert guarded.get("/", headers=RIGHT).status_code == 200


def test_only_open_paths_are_answered_without_credentials(worker: FakeWorker, passwords: Passwords) -> None:
    client = client_with(worker, Access({"basic": passwords}, open_paths=frozenset({"/health", "/metrics"})))
    for path in ("/health", "/metrics", "/health/", "/metrics?x=1"):
        assert client.get(path).status_code == 200
        assert client.get(path, headers=WRONG).status_code == 200
    for path in ("/", "/connectors", "/metricsx", "/health/../connectors"):
        assert client.get(path).status_code == 401
    assert client.put("/health").status_code == 405


def test_request_that_claims_to_come_from_a_worker_needs_its_signature(guarded: TestClient) -> None:
    stated = {"x-fencepost-caller": "eyJuYW1lIjogImFsaWNlIiwgImdyb3VwcyI6IFtdfQ=="}
    assert guarded.get("/connectors", headers=stated).status_code == 403
    assert guarded.get("/connectors", headers={**stated, **RIGHT}).status_code == 403
    signed = {**stated, SIGNATURE: f"GET /connectors 0 for {stated['x-fencepost-caller']}"}
    assert guarded.get("/connectors", headers=signed).json() == ["file"]
    damaged = {"x-fencepost-caller": "x", SIGNATURE: "GET /connectors 0 for x"}
    assert guarded.get("/connectors", headers=damaged).status_code == 403


def test_a_signed_body_reaches_the_handler(guarded: TestClient, worker: FakeWorker) -> None:
    stated = "eyJuYW1lIjogImFsaWNlIiwgImdyb3VwcyI6IFtdfQ=="
    body = b'{"name": "new", "config": {"connector.class": "FileStreamSource"}}'
    headers = {"x-fencepost-caller": stated, "content-type": "application/json"}
    headers[SIGNATURE] = f"POST /connectors?forward=true {len(body)} for {stated}"
    assert guarded.post("/connectors?forward=true", content=body, headers=headers).status_code == 201
    assert "new" in worker.connectors


def test_without_authentication_credentials_do_not_matter(client: TestClient) -> None:
    assert client.get("/connectors", headers={**WRONG, "x-fencepost-caller": "x"}).json() == ["file"]


def test_audit_log_has_a_line_with_the_caller_for_each_change(
    guarded: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fencepost.rest.audit"):
        guarded.put("/connectors/file/pause", headers=RIGHT)
        guarded.put("/connectors/a%0Ab/stop", headers=RIGHT)
        guarded.delete("/connectors/file", headers=WRONG)
        guarded.get("/connectors/file", headers=RIGHT)
        guarded.put("/connectors/file/fence")
    assert audited(caplog) == [
        'user="alice" address=testclient method=PUT path="/connectors/file/pause" status=202',
        'user="alice" address=testclient method=PUT path="/connectors/a%0Ab/stop" status=404',
        'user=- address=testclient method=DELETE path="/connectors/file" status=401',
    ]


def test_refused_changes_are_in_the_audit_log_too(
    worker: FakeWorker, passwords: Passwords, caplog: pytest.LogCaptureFixture
) -> None:
    rules = Rules((Grant("anyone", Role.VIEW),))
    with caplog.at_level(logging.INFO, "fencepost.rest.audit"):
        client_with(worker, Access({"basic": passwords}, rules=lambda: rules)).delete("/connectors/file", headers=RIGHT)
    assert [line.endswith("status=403") for line in audited(caplog)] == [True]
    assert "file" in worker.connectors


def test_changes_are_logged_without_authentication_as_well(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fencepost.rest.audit"):
        client.put("/connectors/file/pause")
    assert audited(caplog) == ['user=- address=testclient method=PUT path="/connectors/file/pause" status=202']


@pytest.mark.parametrize(
    ("method", "path", "lines"),
    [
        ("GET", "/connectors/file/logs", 1),
        ("GET", "/connectors/file/dead-letters", 1),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", 1),
        ("GET", "/connectors/file/status", 0),
    ],
)
def test_validation_and_reading_of_logs_and_records_are_in_the_audit_log(
    guarded: TestClient, caplog: pytest.LogCaptureFixture, method: str, path: str, lines: int
) -> None:
    with caplog.at_level(logging.INFO, "fencepost.rest.audit"):
        guarded.request(method, path, headers=RIGHT)
    assert [f'user="alice" address=testclient method={method} path="{path}"' in each for each in audited(caplog)] == (
        [True] * lines
    )


def test_the_access_log_names_the_caller(guarded: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fencepost.rest.access"):
        guarded.get("/connectors", headers=RIGHT)
        guarded.get("/connectors")
    lines = [record.getMessage() for record in caplog.records if record.name == "fencepost.rest.access"]
    assert [line.split(" [")[0] for line in lines] == ["testclient - alice", "testclient - -"]


@pytest.fixture
def rotating(worker: FakeWorker, passwords: Passwords) -> tuple[TestClient, Callable[[Rules], None]]:
    current = [Rules((Grant("user:alice", Role.ADMIN),))]
    client = client_with(worker, Access({"basic": passwords}, rules=lambda: current[0]))
    return client, lambda rules: current.__setitem__(0, rules)


def test_changed_roles_take_effect_at_once(rotating: tuple[TestClient, Callable[[Rules], None]]) -> None:
    client, change = rotating
    assert client.get("/connectors/file", headers=RIGHT).status_code == 200
    change(Rules(()))
    assert client.get("/connectors/file", headers=RIGHT).status_code == 403


def test_a_caller_that_asks_too_often_has_to_wait_and_others_have_not(worker: FakeWorker, passwords: Passwords) -> None:
    passwords_of = Access({"basic": passwords, "name": Anybody()}, open_paths=frozenset({"/health"}))
    options = RestOptions(access=passwords_of, limits=Limits(requests_per_s=1))
    client = TestClient(create_app(worker.operations, options=options))
    statuses = [client.get("/", headers=RIGHT).status_code for _ in range(200)]
    assert statuses[:2] == [200] * 2
    assert 429 in statuses
    refused = client.get("/", headers=RIGHT)
    while refused.status_code != 429:
        refused = client.get("/", headers=RIGHT)
    assert "rest.requests.per.second.max" in refused.json()["message"]
    assert refused.headers["retry-after"] == "1"
    assert client.get("/", headers={"authorization": "Name bob"}).status_code == 200
    assert {client.get("/health").status_code for _ in range(50)} == {200}


def test_requests_of_workers_do_not_count_without_authentication(worker: FakeWorker) -> None:
    client = TestClient(create_app(worker.operations, options=RestOptions(limits=Limits(requests_per_s=1))))
    signed = {SIGNATURE: "PUT /connectors/file/fence 0"}
    assert [client.put("/connectors/file/fence", headers=signed).status_code for _ in range(5)] == [204] * 5


def test_body_that_is_too_large_is_refused_before_it_is_parsed(worker: FakeWorker) -> None:
    client = TestClient(create_app(worker.operations, options=RestOptions(limits=Limits(body_bytes=2_000))))
    small, large = ({"name": "n", "config": {"connector.class": "x", "a": "b" * size}} for size in (1_000, 2_000))
    assert client.post("/connectors", json=large).status_code == 413
    assert client.post("/connectors", json=small).status_code == 201


def asked_at_once(
    worker: FakeWorker, passwords: Passwords, headers: list[dict[str, str]], **others: Passwords
) -> list[int]:
    """Return the answers to requests that are sent at the same time."""
    app = create_app(worker.operations, options=RestOptions(access=Access({"basic": passwords, **others})))

    async def send() -> list[int]:
        transport = httpx.ASGITransport(app, client=("10.0.0.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://w") as client:
            answers = await asyncio.gather(*(client.get("/", headers=each) for each in headers))
        return [answer.status_code for answer in answers]

    return asyncio.run(send())


def test_concurrent_guesses_are_limited_like_sequential_guesses(worker: FakeWorker, passwords: Passwords) -> None:
    statuses = asked_at_once(worker, passwords, [{"authorization": f"Basic alice:{n}"} for n in range(200)])
    assert set(statuses) == {401, 429}
    assert len(passwords.asked) < 30


def test_right_credentials_at_the_same_time_are_checked_a_few_times_only(
    worker: FakeWorker, passwords: Passwords
) -> None:
    assert set(asked_at_once(worker, passwords, [RIGHT] * 200)) == {200}
    assert len(passwords.asked) <= 4


class SilentIssuer(Passwords):
    """Answers only once a password was checked."""

    def __init__(self, passwords: Passwords) -> None:
        super().__init__(scheme="bearer", challenge="Bearer")
        self.passwords = passwords
        self.was_asked = threading.Event()

    def authenticate(self, credentials: str) -> Checked | None:
        self.was_asked.wait(30)
        return Checked(Principal("bob"), 1e9) if self.passwords.asked else None


@dataclass
class Signalling(Passwords):
    """Passwords that tell an issuer when one was checked."""

    issuer: SilentIssuer | None = None

    def authenticate(self, credentials: str) -> Checked | None:
        checked = super().authenticate(credentials)
        assert self.issuer is not None
        self.issuer.was_asked.set()
        return checked


def test_password_check_does_not_wait_for_an_issuer_that_does_not_answer(worker: FakeWorker) -> None:
    passwords = Signalling()
    issuer = passwords.issuer = SilentIssuer(passwords)
    tokens = [{"authorization": f"Bearer {n}"} for n in range(8)]
    assert asked_at_once(worker, passwords, [*tokens, RIGHT], bearer=issuer) == [200] * 9
