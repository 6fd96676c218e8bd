"""The environment of a host is ours, with one exception."""

import pytest

from fencepost.builtin.java.client.process import _environment
from fencepost.task.channel.client import SECRET_VARIABLE


def test_host_of_plug_ins_does_not_get_the_secret_of_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "of the channel")
    monkeypatch.setenv("VAULT_ADDR", "https://vault")
    assert SECRET_VARIABLE not in _environment()
    assert _environment()["VAULT_ADDR"] == "https://vault"
