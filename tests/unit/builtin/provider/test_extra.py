"""Stores whose client libraries are not installed."""

import sys

import pytest

from fencepost.api import ConfigError, ConfigProvider
from fencepost.plugin import PluginKind, PluginRegistry

GIVEN = {"address": "http://v", "token": "t", "vault.url": "https://v", "project.id": "p"}


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("Vault", "hvac", "vault"), ("Aws", "botocore", "aws"), ("Gcp", "google.api_core", "gcp"),
     ("Azure", "azure.core", "azure")],
)  # fmt: skip
def test_error_for_a_missing_client_library_names_the_extra(
    name: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [each for each in sys.modules if each == library or each.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    cls: type[ConfigProvider] = PluginRegistry().find(PluginKind.CONFIG_PROVIDER, f"{name}ConfigProvider")
    with pytest.raises(ConfigError, match=rf"pip install 'fencepost\[{extra}\]', on workers and executors"):
        cls(GIVEN).get("path", {"key"})


def test_config_providers_are_found_by_name_and_not_listed() -> None:
    registry = PluginRegistry()
    short = registry.find(PluginKind.CONFIG_PROVIDER, "File")
    assert short is registry.find(
        PluginKind.CONFIG_PROVIDER, "org.apache.kafka.common.config.provider.FileConfigProvider"
    )
    assert not [one for one in registry.all_plugins() if "ConfigProvider" in one.class_name]
