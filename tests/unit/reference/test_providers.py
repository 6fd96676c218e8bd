"""Values that a config refers to, as Kafka's providers find them."""

import contextlib
import threading
import time
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from fencepost.api import ConfigData, ConfigError, ConfigProvider, RetriableError, Secret, setting
from fencepost.plugin import PluginRegistry
from fencepost.reference import Providers, limited
from fencepost.reference.limited import HangingError, LimitedCalls
from fencepost.secret.known import hide, remember
from fencepost.testing import eventually
from support.no_exception import no_exceptions

_PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file, env,directory",
    "config.providers.file.class": f"{_PACKAGE}FileConfigProvider",
    "config.providers.env.class": f"{_PACKAGE}EnvVarConfigProvider",
    "config.providers.directory.class": "DirectoryConfigProvider",
}
OWN = {"config.providers": "own", "config.providers.own.class": "Own"}


class Own(ConfigProvider):
    """Answers what a test wants."""

    answers: ClassVar[Any] = {}
    error: ClassVar[BaseException | None] = None
    ttl_ms: ClassVar[Any] = None
    asked: ClassVar[list[tuple[str, frozenset[str]]]] = []
    wait: ClassVar[threading.Event | None] = None

    token: Secret | None = setting("token", default=None, doc="A secret.")

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        self.asked.append((path, frozenset(keys)))
        if self.wait is not None:
            self.wait.wait(30)
        if self.error is not None:
            raise self.error
        if not isinstance(self.answers, dict):
            return self.answers
        return ConfigData({key: self.answers[key] for key in keys if key in self.answers}, self.ttl_ms)


def _find(kind: str, name: str) -> type[Any]:
    return Own if name == "Own" else PluginRegistry().find(kind, name)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("answers", {}), ("error", None), ("ttl_ms", None), ("asked", []), ("wait", None)):
        monkeypatch.setattr(Own, name, value)


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("user = me\npassword = p\\u003d1\n")
    (tmp_path / "token").write_text("t0ken\n")
    monkeypatch.setenv("FENCEPOST_SECRET", "from outside")
    return tmp_path


def resolved(properties: dict[str, str]) -> dict[str, str]:
    found = Providers(properties, _find).look_up(properties).require()
    return {key: value for key, value in found.items() if not key.startswith("config.providers")}


def test_a_mounted_file_is_read_as_utf8_with_its_line_ends(secrets: Path) -> None:
    (secrets / "text").write_bytes("\u00e9\r\nb\r\n".encode())
    assert resolved({**PROVIDERS, "a": f"${{directory:{secrets}:text}}"})["a"] == "\u00e9\r\nb\r\n"
    (secrets / "text").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match="text cannot be read: it is not UTF-8"):
        resolved({**PROVIDERS, "a": f"${{directory:{secrets}:text}}"})


def test_references_are_resolved_anywhere_in_a_value(secrets: Path) -> None:
    file = secrets / "secrets.properties"
    found = resolved({
        **PROVIDERS,
        "jaas": f'user="${{file:{file}:user}}" password="${{file:{file}:password}}";',
        "token": f"${{directory:{secrets}:token}}",
        "env": "${env:FENCEPOST_SECRET}",
        "plain": "${topic} $5",
    })  # fmt: skip
    assert found == {
        "jaas": 'user="me" password="p=1";',
        "token": "t0ken\n",
        "env": "from outside",
        "plain": "${topic} $5",
    }


@pytest.mark.parametrize("given", [{}, PROVIDERS])
def test_a_reference_to_a_provider_that_is_not_declared_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"a: \$\{other:/x:y\} refers to other, which config.providers does not name"):
        resolved({**given, "a": "${other:/x:y}"})


def test_all_failed_references_are_reported_at_once_without_values(secrets: Path) -> None:
    file = secrets / "secrets.properties"
    (secrets / "broken.properties").write_text("password = \\uSECRET")
    with pytest.raises(ConfigError) as refused:
        resolved({
            **PROVIDERS,
            "a": f"${{file:{file}:nothing}}",
            "b": f"${{file:{secrets}/gone:user}} ${{file:{file}:password}}",
            "c": "${env:FENCEPOST_NOT_SET}",
            "d": f"${{directory:{secrets}:../token}}",
            "e": f"${{file:{secrets}/broken.properties:password}}",
        })  # fmt: skip
    told = [message.replace(str(secrets), "DIR") for message in refused.value.messages]
    assert told == [
        "a: ${file:DIR/secrets.properties:nothing} cannot be looked up: there is no nothing in DIR/secrets.properties: "
        "add it",
        "b: ${file:DIR/gone:user} cannot be looked up: DIR/gone cannot be read: No such file or directory",
        "c: ${env:FENCEPOST_NOT_SET} cannot be looked up: there is no FENCEPOST_NOT_SET in the environment: set it",
        "d: ${directory:DIR:../token} cannot be looked up: ../token is not the name of a file in DIR",
        "e: ${file:DIR/broken.properties:password} cannot be looked up: DIR/broken.properties cannot be read: it is "
        "not a properties file",
    ]


def test_provider_reads_only_allowed_paths_and_names(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "token").write_text("t")
    (secrets / "link").symlink_to(elsewhere / "token")
    bounds = {
        "config.providers.directory.param.allowed.paths": f"/nowhere,{secrets}",
        "config.providers.env.param.allowlist.pattern": "FENCEPOST_.*",
    }
    good = {"a": f"${{directory:{secrets}:token}}", "b": "${env:FENCEPOST_SECRET}"}
    assert resolved({**PROVIDERS, **bounds, **good}) == {"a": "t0ken\n", "b": "from outside"}
    bad = {
        "a": f"${{directory:{secrets}/../{elsewhere.name}:token}}",
        "b": "${env:HOME}",
        "c": f"${{directory:{secrets}:link}}",
    }
    with pytest.raises(ConfigError) as refused:
        resolved({**PROVIDERS, **bounds, **bad})
    assert "is not below the provider's allowed.paths" in refused.value.messages[0]
    assert "HOME is not in the provider's allowlist.pattern" in refused.value.messages[1]
    assert "is not below the provider's allowed.paths" in refused.value.messages[2]


def test_unknown_or_missing_provider_class_is_refused() -> None:
    given = {"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"}
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class: Class com.example.Vault could not be fou"):
        Providers(given).check()
    with pytest.raises(ConfigError, match=r'Missing required configuration "config\.providers\.vault\.class"'):
        Providers({"config.providers": "vault"}).check()


def test_a_misspelt_limit_is_refused() -> None:
    given = {**PROVIDERS, "config.providers.file.param.allowed.path": "/secrets"}
    with pytest.raises(ConfigError, match=r"did you mean config\.providers\.file\.param\.allowed\.paths\?"):
        Providers(given).check()


def test_settings_of_a_provider_may_refer_to_providers_that_are_named_before_it(secrets: Path) -> None:
    given = {
        **PROVIDERS,
        "config.providers": "env,own",
        "config.providers.own.class": "Own",
        "config.providers.own.param.token": "${env:FENCEPOST_SECRET}",
    }
    Providers(given, _find).check()
    with pytest.raises(ConfigError, match="refers to env, which"):
        Providers({**given, "config.providers": "own,env"}, _find).check()


def test_provider_is_asked_once_for_all_keys_of_a_path() -> None:
    Own.answers = {"a": "1", "b": "2"}
    assert resolved({**OWN, "x": "${own:p:a}${own:p:b}", "y": "${own:p:a}"}) == {"x": "12", "y": "1"}
    assert Own.asked == [("p", frozenset({"a", "b"}))]


def test_unavailable_store_is_a_retriable_fault() -> None:
    Own.error = RetriableError("closed today")
    found = Providers(OWN, _find).look_up({"x": "${own:a}"})
    assert found.faults == {"x": "x: ${own:a} cannot be looked up now: closed today"}
    with pytest.raises(RetriableError, match="closed today"):
        found.require()
    with pytest.raises(ConfigError, match="closed today"):
        found.require_now()


def test_error_of_a_provider_is_reported_without_secrets() -> None:
    Own.answers = {"a": "the first s3cret"}
    providers = Providers(OWN, _find)
    providers.look_up({"x": "${own:a}"})
    Own.error = KeyError("not the first s3cret, but the second")
    (fault,) = providers.look_up({"x": "${own:a}"}).faults.values()
    assert "KeyError" in fault
    assert "[hidden]" in fault
    assert "s3cret" not in fault


def test_a_value_that_looks_like_a_reference_is_refused_and_not_shown() -> None:
    Own.answers = {"a": "x${env:HOME}y"}
    (fault,) = Providers(OWN, _find).look_up({"x": "${own:a}"}).faults.values()
    assert "references are looked up once" in fault
    assert "HOME" not in fault


def test_recent_value_is_used_only_when_a_maximum_age_is_given() -> None:
    Own.answers, Own.ttl_ms = {"a": "old value"}, 7_000_000
    providers = Providers(OWN, _find)
    assert providers.look_up({"x": "${own:a}"}).ttl_ms == 7_000_000
    Own.answers = {"a": "new value"}
    assert providers.look_up({"x": "${own:a}"}, max_age_s=60).values == {"x": "old value"}
    assert providers.look_up({"x": "${own:a}"}).values == {"x": "new value"}
    assert providers.look_up({"x": "plain"}).ttl_ms is None


def test_a_recent_value_is_used_again_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("fencepost.reference.providers.time", SimpleNamespace(monotonic=lambda: now[0]))
    Own.answers, Own.ttl_ms = {"a": "old value"}, 7_000
    providers = Providers(OWN, _find)
    providers.look_up({"x": "${own:a}"})
    Own.answers = {"a": "new value"}
    now[0] = 105.0
    again = providers.look_up({"x": "${own:a}"}, max_age_s=60)
    assert (again.values, again.ttl_ms) == ({"x": "old value"}, 2_000)
    now[0] = 107.0
    after = providers.look_up({"x": "${own:a}"}, max_age_s=60)
    assert (after.values, after.ttl_ms) == ({"x": "new value"}, 7_000)


def test_looked_up_value_is_hidden_as_a_secret() -> None:
    Own.answers = {"a": "Tr0ub4dor&3"}
    found = Providers(OWN, _find).look_up({"x": "${own:a}"})
    assert hide("wrong password Tr0ub4dor&3, sorry") == "wrong password [hidden], sorry"
    assert "Tr0ub4dor&3" not in repr(found)


@pytest.mark.parametrize("answer", [5432, 7.5, ["a"], True, {"a": 1}], ids=repr)
def test_a_value_that_is_no_text_is_refused_and_not_shown(answer: object) -> None:
    Own.answers = {"a": answer}
    (fault,) = Providers(OWN, _find).look_up({"x": "${own:a}"}).faults.values()
    assert fault.endswith(f"the provider's value is of type {type(answer).__name__}: let it return text")


@pytest.mark.parametrize("answer", [None, "text", ConfigData(None)], ids=["none", "text", "empty"])  # type: ignore[arg-type]
def test_provider_answer_of_a_wrong_type_is_refused(answer: object) -> None:
    Own.answers = answer
    (fault,) = Providers(OWN, _find).look_up({"x": "${own:a}"}).faults.values()
    assert "the provider's answer is no ConfigData with a mapping" in fault


@pytest.mark.parametrize("ttl", ["60", 1.5, True])
def test_provider_ttl_of_a_wrong_type_is_refused(ttl: object) -> None:
    Own.answers, Own.ttl_ms = {"a": "value"}, ttl
    (fault,) = Providers(OWN, _find).look_up({"x": "${own:a}"}).faults.values()
    assert "ttl_ms" in fault


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_base_exception_of_a_provider_is_reported_as_a_fault(error: BaseException) -> None:
    Own.error = error
    (fault,) = Providers(OWN, _find).look_up({"x": "${own:a}"}).faults.values()
    assert type(error).__name__ in fault


def test_environment_value_that_is_not_utf8_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_BYTES", "caf\udce9 noir")
    assert resolved({**PROVIDERS, "a": "${env:FENCEPOST_BYTES}"}) == {"a": "caf\udce9 noir"}
    assert hide("no caf\udce9 noir") == "no [hidden]"


def test_hanging_provider_is_unavailable_while_others_answer(secrets: Path) -> None:
    Own.wait, Own.answers = threading.Event(), {"a": "value"}
    given = {**PROVIDERS, **OWN, "config.providers": "own,env"}
    providers = Providers(given, _find, longest_s=0.05)
    config = {"x": "${own:a}", "y": "${env:FENCEPOST_SECRET}"}
    with pytest.raises(RetriableError, match=r"x: \$\{own:a\} cannot be looked up now: the provider hangs"):
        providers.look_up({"x": "${own:a}"}).require()
    eventually(lambda: Own.asked, within_s=30)
    assert "an earlier look-up has not returned" in providers.look_up(config).faults["x"]
    assert len(Own.asked) == 1
    eventually(lambda: providers.look_up(config).values["y"] == "from outside", within_s=30)  # at a slow moment, later
    Own.wait.set()
    eventually(lambda: providers.look_up(config).values["x"] == "value", within_s=30)


def test_a_provider_that_hangs_while_it_is_created_delays_no_other(secrets: Path) -> None:
    """Its settings refer to a provider that hangs."""
    Own.wait, Own.answers = threading.Event(), {"a": "value"}
    given = {
        **PROVIDERS,
        "config.providers": "own,second,env",
        "config.providers.own.class": "Own",
        "config.providers.second.class": "Own",
        "config.providers.second.param.token": "${own:a}",
    }
    providers = Providers(given, _find)
    thread = threading.Thread(target=providers.look_up, args=({"x": "${second:a}"},))
    thread.start()
    eventually(lambda: Own.asked, within_s=30)
    assert providers.look_up({"y": "${env:FENCEPOST_SECRET}"}).values == {"y": "from outside"}
    Own.wait.set()
    thread.join(30)


class Stuck(Own):
    """Hangs for ever in its first call, or when the first one is created."""

    hangs_in: ClassVar[str] = "get"
    made: ClassVar[list[str]] = []
    is_over: ClassVar[threading.Event]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.hang("creation")

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        self.hang("get")
        return ConfigData(dict.fromkeys(keys, "value"))

    def hang(self, where: str) -> None:
        if self.hangs_in == where:
            self.made.append(where)
            if len(self.made) == 1:
                self.is_over.wait()


@pytest.mark.parametrize("hangs_in", ["get", "creation"])
def test_a_provider_that_hung_for_ever_once_is_asked_again_after_a_time(
    monkeypatch: pytest.MonkeyPatch, hangs_in: str
) -> None:
    for name, value in (("hangs_in", hangs_in), ("made", []), ("is_over", threading.Event())):
        monkeypatch.setattr(Stuck, name, value, raising=False)
    providers = Providers(OWN, lambda kind, name: Stuck, longest_s=0.2, again_s=0.01)
    assert "the provider hangs" in providers.look_up({"x": "${own:a}"}).faults["x"]
    eventually(lambda: providers.look_up({"x": "${own:a}"}).values["x"] == "value", within_s=60)
    Stuck.is_over.set()


def test_hanging_calls_are_retried_at_growing_intervals() -> None:
    calls, is_over, began = LimitedCalls(0.001, again_s=0.1), threading.Event(), time.monotonic()
    made: list[object] = []

    def hang() -> None:
        made.append(None)
        is_over.wait()

    def is_made(count: int) -> bool:
        with contextlib.suppress(HangingError):
            calls.call("key", hang)
        return len(made) == count

    eventually(lambda: is_made(4), within_s=60)
    assert time.monotonic() - began >= 0.1 + 0.2 + 0.3
    is_over.set()


def test_calls_that_hang_together_count_as_one_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one moment without an answer would cost an hour where many tasks start at once."""
    calls, is_over, now_s = LimitedCalls(0.3, again_s=100.0), threading.Event(), [0.0]
    monkeypatch.setattr(limited, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    made: list[float] = []

    def hang() -> None:
        made.append(now_s[0])
        is_over.wait()

    def call(_: int = 0) -> None:
        with contextlib.suppress(HangingError):
            calls.call("key", hang)

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(call, range(32)))
    assert len(made) > 1
    for at in (99.0, 100.0, 299.0, 301.0, *(301.0 + n * 501.0 for n in range(1, 8))):
        now_s[0] = at
        call()
    later = [at for at in made if at]
    assert later == [100.0, 301.0, *(301.0 + n * 501.0 for n in range(1, 8))], "and 5 times as long at most"
    is_over.set()


def test_values_are_hidden_as_long_as_they_are_held() -> None:
    Own.answers = {"a": "correct horse battery"}
    found = Providers(OWN, _find).look_up({"x": "${own:a}"})
    release = found.keep_hidden()
    for number in range(2_100):
        remember(f"another value {number:06}")
    assert hide("correct horse battery") == "[hidden]"
    release()
    remember("one more value")
    assert hide("correct horse battery") == "correct horse battery"


def test_a_password_in_the_settings_of_a_provider_is_hidden() -> None:
    Own.error = ConfigError("the store does not know sesame-51")
    given = {**OWN, "config.providers.own.param.token": "sesame-51"}
    (fault,) = Providers(given, _find).look_up({"x": "${own:a}"}).faults.values()
    assert fault == "x: ${own:a} cannot be looked up: the store does not know [hidden]"
