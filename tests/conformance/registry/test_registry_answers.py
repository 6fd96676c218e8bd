"""What a refusal, a rubbish answer or no answer at all means, and that each says what to do."""

import logging
import socket
import traceback
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import FatalError, RecordError, UnavailableError
from fencepost.converter.registry.client import Registry, WrittenSchema
from fencepost.converter.registry.settings import RegistrySettings
from fencepost.converter.registry.wire import SchemaKey
from support.scripted_registry import ScriptedRegistry
from support.worker import free_port

INT = WrittenSchema("AVRO", '"int"')
ONE = SchemaKey(1)
TLS = Path(__file__).parents[2] / "fixtures" / "channel"


def registry(*urls: str, **settings: str) -> Registry:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return Registry(RegistrySettings({"schema.registry.url": ",".join(urls), **given}), latest_ttl_s=0)


def refusal(code: int, message: str = "no") -> dict[str, Any]:
    return {"error_code": code, "message": message}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_overloaded_registry_is_waited_for(scripted: ScriptedRegistry, status: int) -> None:
    scripted.status, scripted.body = status, "<html>Bad gateway</html>"
    with pytest.raises(UnavailableError, match=f"HTTP {status}"):
        registry(scripted.url).schema(ONE)


def test_a_registry_that_is_not_there_is_waited_for() -> None:
    port = free_port()
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port}.*cannot be reached"):
        registry(f"http://127.0.0.1:{port}").register("t-value", INT)


def test_a_registry_that_does_not_answer_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=r"imeout|timed out"):
            registry(url, http_read_timeout_ms="50").schema(ONE)


def test_the_next_url_is_asked_if_one_does_not_answer(scripted: ScriptedRegistry) -> None:
    scripted.body = {"schema": '"int"'}
    assert registry(f"http://127.0.0.1:{free_port()}", scripted.url).schema(ONE) == INT


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_fail_the_task(scripted: ScriptedRegistry, status: int) -> None:
    scripted.status, scripted.body = status, refusal(status, "Unauthorized")
    with pytest.raises(FatalError, match=r"Unauthorized.*check basic\.auth"):
        registry(scripted.url).schema(ONE)


def test_an_unknown_id_is_the_fault_of_the_record(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 404, refusal(40403, "Schema not found")
    client = registry(scripted.url)
    for _ in range(3):
        with pytest.raises(RecordError, match=r"id 1.*Schema not found.*another registry"):
            client.schema(ONE)
    assert len(scripted.asked) == 1, "a batch of such records asks once"


def test_an_unknown_subject_is_the_fault_of_the_record(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 404, refusal(40401, "Subject not found")
    client = registry(scripted.url)
    for _ in range(3):
        with pytest.raises(RecordError, match=r"newest schema of subject t-value.*Subject not found"):
            client.latest("t-value")
    assert len(scripted.asked) == 1, "a batch of such records asks once"


def test_an_incompatible_schema_says_the_subject_the_rule_and_what_to_do(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 409, refusal(409, "reader type: INT not compatible")
    scripted.by_path["/config/t-value"] = (404, refusal(40401))
    scripted.by_path["/config"] = (200, {"compatibilityLevel": "FULL"})
    with pytest.raises(RecordError, match=r"t-value.*rule is FULL.*needs a default.*reader type: INT not compatible"):
        registry(scripted.url).register("t-value", INT)


def test_an_invalid_schema_says_what_the_registry_says(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 422, refusal(42201, "Invalid schema")
    with pytest.raises(RecordError, match=r"t-value.*Invalid schema"):
        registry(scripted.url).register("t-value", INT)


def test_a_schema_that_is_not_registered_says_what_to_set(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 404, refusal(40401, "Subject not found")
    with pytest.raises(RecordError, match=r"auto\.register\.schemas is false.*use\.latest\.version"):
        registry(scripted.url).look_up("t-value", INT)


@pytest.mark.parametrize(
    "body",
    ["", "<html>Hello</html>", "[]", "7", "null", '"x"', "{}", '{"schema": 7}', '{"schema": ["int"]}', "[" * 9000,
     '{"schema": "x", "references": 3}', '{"schema": "x", "references": [{"name": "n"}]}', "\0"],
)  # fmt: skip
def test_a_rubbish_answer_fails_the_task(scripted: ScriptedRegistry, body: str) -> None:
    scripted.body = body
    with pytest.raises(FatalError, match=r"not one of a schema registry.*schema\.registry\.url"):
        registry(scripted.url).schema(ONE)


@pytest.mark.parametrize(
    "body", ["{}", '{"id": "1"}', '{"id": -1}', '{"id": null}', '{"id": 1e99}', '{"id": true}', "[1]"]
)
def test_a_rubbish_id_fails_the_task(scripted: ScriptedRegistry, body: str) -> None:
    scripted.body = body
    with pytest.raises(FatalError, match="not one of a schema registry"):
        registry(scripted.url).register("t-value", INT)


@pytest.mark.parametrize(("status", "body"), [(404, "<html>Not found</html>"), (400, "{}"), (302, ""), (418, "teapot")])
def test_what_is_no_registry_fails_the_task(scripted: ScriptedRegistry, status: int, body: str) -> None:
    scripted.status, scripted.body = status, body
    with pytest.raises(FatalError, match=r"schema\.registry\.url, including its path"):
        registry(scripted.url).schema(ONE)


def test_answers_are_remembered_and_refusals_of_the_registry_are_not(scripted: ScriptedRegistry) -> None:
    client = registry(scripted.url)
    scripted.status = 503
    with pytest.raises(UnavailableError):
        client.schema(ONE)
    scripted.status, scripted.body = 200, {"schema": '"int"'}
    assert client.schema(ONE) == client.schema(ONE) == INT
    assert len(scripted.asked) == 2


def test_the_newest_version_is_asked_for_again_when_it_is_old(scripted: ScriptedRegistry) -> None:
    scripted.body = {"schema": '"int"', "id": 4, "version": 1}
    client = registry(scripted.url)
    assert client.latest("t-value") == client.latest("t-value") == (SchemaKey(4), INT)
    assert len(scripted.asked) == 2


def test_references_that_form_a_cycle_are_refused(scripted: ScriptedRegistry) -> None:
    scripted.body = {"schema": '"int"', "references": [{"name": "n", "subject": "s", "version": 1}]}
    client = registry(scripted.url)
    with pytest.raises(RecordError, match="form a cycle"):
        client.referenced(client.schema(ONE))


@pytest.mark.parametrize(
    ("settings", "user"),
    [
        ({}, None),
        ({"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "me:s:cret"}, "me:s:cret"),
        (
            {"basic_auth_credentials_source": "USER_INFO", "schema.registry.basic.auth.user.info": "me:cret"},
            "me:cret",
        ),
    ],
)
def test_users_are_sent_as_the_settings_say(scripted: ScriptedRegistry, settings: Any, user: str | None) -> None:
    scripted.body = {"schema": '"int"'}
    registry(scripted.url, **settings).schema(ONE)
    assert scripted.users == ([] if user is None else [user])


def test_a_user_in_the_url_is_sent_and_never_shown(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 401, refusal(401)
    url = scripted.url.replace("http://", "http://me:p%40ss-canary@")
    with pytest.raises(FatalError) as caught:
        registry(url).schema(ONE)
    assert scripted.users == ["me:p@ss-canary"]
    assert "canary" not in str(caught.value)


def test_a_token_is_sent(scripted: ScriptedRegistry) -> None:
    scripted.body = {"schema": '"int"'}
    registry(scripted.url, bearer_auth_credentials_source="STATIC_TOKEN", bearer_auth_token="abc").schema(ONE)
    assert scripted.authorizations == ["Bearer abc"]


def test_a_token_is_fetched(scripted: ScriptedRegistry) -> None:
    scripted.body = {"schema": '"int"'}
    scripted.by_path["/token"] = (200, {"access_token": "xyz", "token_type": "bearer", "expires_in": 60})
    oauth = {
        "bearer_auth_credentials_source": "OAUTHBEARER",
        "bearer_auth_issuer_endpoint_url": f"{scripted.url}/token",
        "bearer_auth_client_id": "me",
        "bearer_auth_client_secret": "canary",
    }
    assert registry(scripted.url, **oauth).schema(ONE) == INT
    assert scripted.authorizations[-1] == "Bearer xyz"
    scripted.by_path["/token"] = (503, "later")
    with pytest.raises(UnavailableError) as caught:
        registry(scripted.url, **oauth).schema(ONE)
    assert "canary" not in str(caught.value)


def test_a_missing_certificate_file_fails_the_task(tmp_path: Path) -> None:
    client = registry("https://127.0.0.1:1", **{"schema.registry.ssl.truststore.location": str(tmp_path / "no.pem")})
    with pytest.raises(FatalError, match=r"schema\.registry\.ssl"):
        client.schema(ONE)


def test_a_registry_behind_tls_is_trusted_as_the_settings_say() -> None:
    with ScriptedRegistry(TLS) as secure:
        secure.body = {"schema": '"int"'}
        trusted = {"schema.registry.ssl.truststore.location": str(TLS / "certificate.pem")}
        assert registry(secure.url, **trusted).schema(ONE) == INT
        with pytest.raises(
            FatalError, match=r"certificate is not trusted.*schema\.registry\.ssl\.truststore\.location"
        ):
            registry(secure.url).schema(ONE)
        assert len(secure.asked) == 1


@pytest.mark.parametrize("status", [200, 401, 409, 503])
def test_no_secret_is_in_a_log_or_an_error(
    scripted: ScriptedRegistry, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted.status, scripted.body = status, {"schema": '"int"', "id": 1} if status == 200 else refusal(status)
    basic = {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "me:canary-1"}
    token = {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "canary-2"}
    for url, settings in (
        (scripted.url, basic),
        (scripted.url, token),
        (scripted.url.replace("http://", "http://me:canary-3@"), {}),
    ):
        texts = []
        try:
            registry(url, **settings).register("t-value", INT)
        except Exception as error:
            texts = traceback.format_exception(error)
        assert "canary" not in "".join((caplog.text, *texts))
    assert len(scripted.asked) >= 3
