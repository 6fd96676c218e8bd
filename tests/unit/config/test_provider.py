"""Values that a config refers to, as Kafka's providers find them."""

from pathlib import Path

import pytest

from fencepost.config import ConfigError
from fencepost.config.provider import resolved

_PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file, env,directory",
    "config.providers.file.class": f"{_PACKAGE}FileConfigProvider",
    "config.providers.env.class": f"{_PACKAGE}EnvVarConfigProvider",
    "config.providers.directory.class": "DirectoryConfigProvider",
}


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("user = me\npassword = p\\u003d1\n")
    (tmp_path / "token").write_text("t0ken\n")
    monkeypatch.setenv("FENCEPOST_SECRET", "from outside")
    return tmp_path


def test_references_are_looked_up_wherever_they_stand_in_a_value(secrets: Path) -> None:
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
def test_a_reference_to_a_provider_that_is_not_named_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"a: \$\{other:/x:y\} refers to other, which config.providers does not name"):
        resolved({**given, "a": "${other:/x:y}"})


def test_all_that_cannot_be_looked_up_is_told_at_once_and_no_value(secrets: Path) -> None:
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


def test_what_a_provider_may_look_up_can_be_bounded(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "token").write_text("t")
    bounds = {
        "config.providers.directory.param.allowed.paths": f"/nowhere,{secrets}",
        "config.providers.env.param.allowlist.pattern": "FENCEPOST_.*",
    }
    good = {"a": f"${{directory:{secrets}:token}}", "b": "${env:FENCEPOST_SECRET}"}
    assert resolved({**PROVIDERS, **bounds, **good}) == {"a": "t0ken\n", "b": "from outside"}
    bad = {"a": f"${{directory:{secrets}/../{elsewhere.name}:token}}", "b": "${env:HOME}"}
    with pytest.raises(ConfigError) as refused:
        resolved({**PROVIDERS, **bounds, **bad})
    assert "is not below config.providers.directory.param.allowed.paths" in refused.value.messages[0]
    assert "HOME is not in config.providers.env.param.allowlist.pattern" in refused.value.messages[1]


def test_a_provider_that_does_not_run_here_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class: there are FileConfigProvider"):
        resolved({"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"})
