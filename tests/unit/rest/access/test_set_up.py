from pathlib import Path

import pytest

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.rest.access.access import Access, access_of, exposures
from support.settings import SETTINGS

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
LOCAL = {"listeners": "http://127.0.0.1:8083"}


def access(**more: str) -> Access:
    return access_of(WorkerConfig({**SETTINGS, **more}))


@pytest.fixture
def users(tmp_path: Path) -> str:
    path = tmp_path / "users.properties"
    path.write_text("alice=s3cret\n")
    return str(path)


@pytest.mark.parametrize(
    "listeners", ["http://127.0.0.1:8083", "http://localhost:0", "http://[::1]:1,http://127.1.2.3:2"]
)
def test_loopback_listener_needs_no_authentication(listeners: str) -> None:
    assert not access(listeners=listeners).asks


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"listeners": "http://:8083"},
        {"listeners": "http://0.0.0.0:8083"},
        {"listeners": "http://[::]:8083"},
        {"listeners": "http://worker.example:8083"},
        {"listeners": "http://localhost.example:8083"},
        {"listeners": "http://127.0.0.1:8083,http://10.0.0.1:8083"},
    ],
)
def test_public_listener_without_authentication_is_refused(more: dict[str, str], users: str) -> None:
    with pytest.raises(ConfigError) as caught:
        access(**more)
    [message] = caught.value.messages
    for step in ("listeners", "rest.basic.users.file", "http://127.0.0.1", "rest.unprotected=accepted"):
        assert step in message
    assert not access(**more, **{"rest.unprotected": "accepted"}).asks
    assert access(**more, **{"rest.basic.users.file": users}).asks


def jaas(tmp_path: Path, text: str) -> str:
    path = tmp_path / "jaas.conf"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("form", ["{}", "file:{}", "=file://{}"])
def test_basic_auth_extension_of_kafka_connect_reads_its_jaas_file(
    tmp_path: Path, users: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    entry = f'KafkaConnect {{\n  // users\n  {MODULE} required\n  file="{users}";\n}};'
    login = jaas(tmp_path, f"/* ours */\nOther {{ x required; }};\n{entry}")
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={form.format(login)}")
    found = access(**{"rest.extension.classes": EXTENSION})
    assert list(found.authenticators) == ["basic"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "KAFKA_OPTS"),
        ("Other { x required; };", "no entry KafkaConnect"),
        ('KafkaConnect { com.example.Ldap required file="x"; };', "PropertyFileLoginModule"),
        (f"KafkaConnect {{ {MODULE} required; }};", "names no file"),
        (f'KafkaConnect {{ {MODULE} required file="x"', "no entry KafkaConnect"),
    ],
)
def test_the_extension_without_a_file_of_users_is_refused_with_both_next_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, fault: str
) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    if text is not None:
        monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas(tmp_path, text)}")
    with pytest.raises(ConfigError, match=fault) as caught:
        access(**LOCAL, **{"rest.extension.classes": EXTENSION})
    assert "rest.basic.users.file" in str(caught.value)


def test_other_extensions_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"no extension com\.example\.Audit"):
        access(**LOCAL, **{"rest.extension.classes": f"{EXTENSION},com.example.Audit"})


def test_roles_without_authentication_are_refused(tmp_path: Path, users: str) -> None:
    roles = tmp_path / "roles"
    roles.write_text("anyone view *\n")
    with pytest.raises(ConfigError, match=r"rest\.basic\.users\.file"):
        access(**LOCAL, **{"rest.roles.file": str(roles)})
    found = access(**LOCAL, **{"rest.roles.file": str(roles), "rest.basic.users.file": users})
    assert [grant.pattern for grant in found.rules().grants] == ["*"]
    roles.write_text("anyone view public\n")
    assert [grant.pattern for grant in found.rules().grants] == ["public"]


def test_the_faults_of_both_files_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "roles").write_text("nobody reads *\n")
    with pytest.raises(ConfigError) as caught:
        access(**{"rest.roles.file": str(tmp_path / "roles"), "rest.basic.users.file": str(tmp_path / "absent")})
    assert len(caught.value.messages) == 2


def test_health_and_metrics_can_be_open(users: str) -> None:
    found = access(**{"rest.basic.users.file": users, "rest.open.paths": "health,METRICS"})
    assert found.open_paths == {"/health", "/metrics"}
    with pytest.raises(ConfigError, match=r"rest\.open\.paths"):
        access(**{"rest.basic.users.file": users, "rest.open.paths": "connectors"})


@pytest.mark.parametrize(
    ("listeners", "is_known", "texts"),
    [
        ("http://127.0.0.1:1", False, []),
        ("http://127.0.0.1:1", True, []),
        ("http://10.0.0.1:1,http://127.0.0.1:1", False, ["no authentication"]),
        ("http://10.0.0.1:1,https://10.0.0.1:2", True, ["unencrypted"]),
    ],
)
def test_unprotected_listeners_are_warned_about(users: str, listeners: str, is_known: bool, texts: list[str]) -> None:
    more = {"rest.basic.users.file": users} if is_known else {"rest.unprotected": "accepted"}
    config = WorkerConfig({**SETTINGS, "listeners": listeners, **more})
    found = exposures(config, access_of(config))
    assert len(found) == len(texts)
    assert all(text in warning and "//10.0.0.1:1:" in warning for text, warning in zip(texts, found, strict=True))
