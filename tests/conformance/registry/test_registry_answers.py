"""What a refusal, a rubbish answer or no answer at all means, and that each says what to do."""

import logging
import socket
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from fencepost.api import FatalError, RecordError, RetriableError, UnavailableError
from fencepost.api.errors import LaggingError
from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.converter.registry import client as client_of_registry
from fencepost.builtin.converter.registry.avro.converter import AvroConverter
from fencepost.builtin.converter.registry.client import Reference, Registry, WrittenSchema
from fencepost.builtin.converter.registry.settings import RegistrySettings
from fencepost.builtin.converter.registry.wire import SchemaKey
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition
from fencepost.spark.row.registry import ValueRegistry
from fencepost.spark.row.registry_columns import RegistryBytes
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.processing import SinkProcessor
from fencepost.testing import eventually
from support.scripted_registry import ScriptedRegistry
from support.worker import free_port

INT = WrittenSchema("AVRO", '"int"')
ONE = SchemaKey(1)
REFERRING = WrittenSchema("AVRO", '"int"', (Reference("n", "s", 2),))
TLS = Path(__file__).parents[2] / "fixtures" / "channel"


def registry(*urls: str, clock: Callable[[], float] = time.monotonic, **settings: str) -> Registry:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return Registry(RegistrySettings({"schema.registry.url": ",".join(urls), **given}), latest_ttl_s=0, clock=clock)


def refusal(code: int, message: str = "no") -> dict[str, Any]:
    return {"error_code": code, "message": message}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_overloaded_registry_is_an_unavailable_error(scripted: ScriptedRegistry, status: int) -> None:
    scripted.status, scripted.body = status, "<html>Bad gateway</html>"
    with pytest.raises(UnavailableError, match=f"HTTP {status}"):
        registry(scripted.url).schema(ONE)


def test_unreachable_registry_is_an_unavailable_error() -> None:
    port = free_port()
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port}.*cannot be reached"):
        registry(f"http://127.0.0.1:{port}").register("t-value", INT)


def test_silent_registry_is_an_unavailable_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=r"imeout|timed out"):
            registry(url, http_read_timeout_ms="50").schema(ONE)


def test_next_url_is_used_when_one_does_not_answer(scripted: ScriptedRegistry) -> None:
    scripted.body = {"schema": '"int"'}
    assert registry(f"http://127.0.0.1:{free_port()}", scripted.url).schema(ONE) == INT


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_fail_the_task(scripted: ScriptedRegistry, status: int) -> None:
    scripted.status, scripted.body = status, refusal(status, "Unauthorized")
    with pytest.raises(FatalError, match=r"Unauthorized.*check basic\.auth"):
        registry(scripted.url).schema(ONE)


Asks = Callable[[Registry], object]
UNKNOWN: dict[str, tuple[Asks, int, str]] = {
    "id": (lambda client: client.schema(ONE), 40403, r"id 1.*no.*another registry"),
    "guid": (lambda client: client.schema(SchemaKey(guid=UUID(int=7))), 40403, r"no.*another registry"),
    "reference": (lambda client: client.referenced(REFERRING), 40402, r"version 2 of subject s"),
    "subject": (lambda client: client.latest("t-value"), 40401, r"newest schema of subject t-value"),
    "schema": (lambda client: client.look_up("t-value", INT), 40403, r"auto\.register\.schemas is false.*use\.latest"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown_schema_is_requested_again_before_its_record_fails(scripted: ScriptedRegistry, what: str) -> None:
    """One of its nodes may be behind another one, and knows a moment later."""
    ask, code, text = UNKNOWN[what]
    scripted.status, scripted.body = 404, refusal(code)
    now_s = [0.0]
    client = registry(scripted.url, clock=lambda: now_s[0])
    for each in (0.0, 0.3, 3.9):
        now_s[0] = each
        with pytest.raises(LaggingError, match=text):
            ask(client)
    for each in (4.0, 5.9, 6.0):
        now_s[0] = each
        with pytest.raises(RecordError, match=text):
            ask(client)
    assert len(scripted.asked) == 5, "it is asked for again, but not for each record"
    scripted.status, scripted.body = 200, {"schema": '"int"', "id": 1, "version": 2, "subject": "s"}
    now_s[0] = 8.0
    ask(client)
    assert registry(scripted.url).version("t-value", INT) == 2


def test_unknown_schema_is_awaited_again_when_it_was_unused_for_long(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 404, refusal(40403)
    now_s = [0.0]
    client = registry(scripted.url, clock=lambda: now_s[0])
    for at_s, error in ((0, LaggingError), (29, RecordError), (600, RecordError), (1199, RecordError),
                        (1800, LaggingError), (1805, RecordError)):  # fmt: skip
        now_s[0] = at_s
        with pytest.raises(error):
            client.schema(ONE)


def waited_s(client: Registry, key: SchemaKey, now_s: list[float]) -> float:
    """Return for how long a record with an unknown id is tried again before it is blamed."""
    began_s = now_s[0]
    while True:
        try:
            client.schema(key)
        except LaggingError:
            now_s[0] += 0.5
        except RecordError:
            return now_s[0] - began_s


@pytest.mark.parametrize("ids", [7, 100_000])
def test_wait_for_many_interleaved_unknown_ids_is_seconds_in_a_minute(scripted: ScriptedRegistry, ids: int) -> None:
    scripted.status, scripted.body = 404, refusal(40403)
    now_s, waits = [0.0], []
    client = registry(scripted.url, clock=lambda: now_s[0])
    for record in range(100):
        waits.append(waited_s(client, SchemaKey(record % ids), now_s))
        now_s[0] += 0.125
    assert sum(waits) == 8.0
    if ids == 7:
        assert len(scripted.asked) < 80, "each of them is asked for every two seconds"
        now_s[0] += 61
        assert sum(waited_s(client, SchemaKey(each), now_s) for each in range(7)) == 8.0, "those without a wait so far"
        with ThreadPoolExecutor(1) as other_task:
            assert other_task.submit(waited_s, client, SchemaKey(8), now_s).result(60) == 4.0


def test_a_subject_without_the_schema_has_no_version(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 404, refusal(40403)
    assert registry(scripted.url).version("t-value", INT) is None


@pytest.mark.parametrize("timeout_ms", [0, 1])
def test_no_record_is_dropped_while_a_registry_node_lags(
    scripted: ScriptedRegistry, timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_of_registry, "_BEHIND_FOR_S", 600.0)
    scripted.by_path["/schemas/ids/1"] = (404, refusal(40403))
    scripted.status, scripted.body = 404, refusal(40401)
    tolerance = Tolerance(True, timeout_ms, 1, False, False, Control(is_paused=False), "c-0")
    avro = AvroConverter({"schema.registry.url": scripted.url, "converter.type": "value"})
    key, headers = StringConverter({"converter.type": "key"}), SimpleHeaderConverter({})
    sink = SinkProcessor(Chain(), key, avro, headers, tolerance)
    data = b"\0\0\0\0\1\x0e"

    def process() -> list[Any]:
        return list(sink.process(Fetched([TopicPartition("t", 0)] * 2, [0, 1], [1] * 2, [None] * 2, [data] * 2)).values)

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(process()))
    thread.start()
    eventually(lambda: tolerance.counters.retries > 1)
    scripted.by_path["/schemas/ids/1"] = (200, {"schema": '"int"'})
    thread.join(60)
    assert found == [7, 7]
    assert tolerance.counters.skipped == 0


FRAME_ASKS: dict[str, Callable[[ValueRegistry, RegistryBytes], object]] = {
    "id": lambda values, _: values.by_key(ONE),
    "subject": lambda values, _: values.latest("t"),
    "written": lambda _, writer: writer.written(pa.RecordBatch.from_pydict({"value": pa.array([7], pa.int32())})),
}


@pytest.mark.parametrize("what", FRAME_ASKS)
def test_frame_waits_for_a_lagging_registry_before_it_rejects_the_value(
    scripted: ScriptedRegistry, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor that gave up at the first answer would be followed by one that asks for the first time."""
    monkeypatch.setattr(client_of_registry, "_BEHIND_FOR_S", 1.0)
    settings = {"schema.registry.url": scripted.url}
    avro = AvroConverter({**settings, "auto.register.schemas": "false", "converter.type": "value"})
    values, writer = ValueRegistry(settings, "AVRO"), RegistryBytes(avro, "t")
    scripted.status, scripted.body = 404, refusal(40403)
    with pytest.raises((RecordError, RetriableError), match="no") as caught:
        FRAME_ASKS[what](values, writer)
    assert not isinstance(caught.value, LaggingError)
    asked = len(scripted.asked)
    assert asked > 1
    monkeypatch.setattr(client_of_registry, "_BEHIND_FOR_S", 600.0)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(FRAME_ASKS[what], ValueRegistry(settings, "AVRO"), writer)
        eventually(lambda: len(scripted.asked) > asked + 1, within_s=60)
        scripted.body = {"schema": '"int"', "id": 1, "version": 2, "subject": "t-value"}
        scripted.status = 200
        assert answer.result(60) is not None


def test_error_for_an_incompatible_schema_has_subject_rule_and_advice(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 409, refusal(409, "reader type: INT not compatible")
    scripted.by_path["/config/t-value"] = (404, refusal(40401))
    scripted.by_path["/config"] = (200, {"compatibilityLevel": "FULL"})
    with pytest.raises(RecordError, match=r"t-value.*rule is FULL.*needs a default.*reader type: INT not compatible"):
        registry(scripted.url).register("t-value", INT)


def test_error_for_an_invalid_schema_has_the_registrys_message(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 422, refusal(42201, "Invalid schema")
    with pytest.raises(RecordError, match=r"t-value.*Invalid schema"):
        registry(scripted.url).register("t-value", INT)


@pytest.mark.parametrize(
    "body",
    ["", "<html>Hello</html>", "[]", "7", "null", '"x"', "{}", '{"schema": 7}', '{"schema": ["int"]}', "[" * 9000,
     '{"schema": "x", "references": 3}', '{"schema": "x", "references": [{"name": "n"}]}', "\0"],
)  # fmt: skip
def test_malformed_answer_of_the_registry_fails_the_task(scripted: ScriptedRegistry, body: str) -> None:
    scripted.body = body
    with pytest.raises(FatalError, match=r"not one of a schema registry.*schema\.registry\.url"):
        registry(scripted.url).schema(ONE)


@pytest.mark.parametrize(
    "body", ["{}", '{"id": "1"}', '{"id": -1}', '{"id": null}', '{"id": 1e99}', '{"id": true}', "[1]"]
)
def test_malformed_schema_id_fails_the_task(scripted: ScriptedRegistry, body: str) -> None:
    scripted.body = body
    with pytest.raises(FatalError, match="not one of a schema registry"):
        registry(scripted.url).register("t-value", INT)


@pytest.mark.parametrize(("status", "body"), [(404, "<html>Not found</html>"), (400, "{}"), (302, ""), (418, "teapot")])
def test_server_that_is_no_schema_registry_fails_the_task(scripted: ScriptedRegistry, status: int, body: str) -> None:
    scripted.status, scripted.body = status, body
    with pytest.raises(FatalError, match=r"schema\.registry\.url, including its path"):
        registry(scripted.url).schema(ONE)


def test_answers_are_cached_and_errors_of_the_registry_are_not(scripted: ScriptedRegistry) -> None:
    client = registry(scripted.url)
    scripted.status = 503
    with pytest.raises(UnavailableError):
        client.schema(ONE)
    scripted.status, scripted.body = 200, {"schema": '"int"'}
    assert client.schema(ONE) == client.schema(ONE) == INT
    assert len(scripted.asked) == 2


def test_newest_version_is_requested_again_when_its_cache_entry_is_old(scripted: ScriptedRegistry) -> None:
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
def test_basic_authentication_is_sent_according_to_the_settings(
    scripted: ScriptedRegistry, settings: Any, user: str | None
) -> None:
    scripted.body = {"schema": '"int"'}
    registry(scripted.url, **settings).schema(ONE)
    assert scripted.users == ([] if user is None else [user])


def test_credentials_in_the_url_are_sent_and_never_shown(scripted: ScriptedRegistry) -> None:
    scripted.status, scripted.body = 401, refusal(401)
    url = scripted.url.replace("http://", "http://me:p%40ss-canary@")
    with pytest.raises(FatalError) as caught:
        registry(url).schema(ONE)
    assert scripted.users == ["me:p@ss-canary"]
    assert "canary" not in str(caught.value)


def test_configured_bearer_token_is_sent(scripted: ScriptedRegistry) -> None:
    scripted.body = {"schema": '"int"'}
    registry(scripted.url, bearer_auth_credentials_source="STATIC_TOKEN", bearer_auth_token="abc").schema(ONE)
    assert scripted.authorizations == ["Bearer abc"]


def test_oauth_token_is_fetched_and_sent(scripted: ScriptedRegistry) -> None:
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


def test_tls_certificate_of_the_registry_is_checked_against_the_trust_store() -> None:
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
