import os

import pytest

from fencepost.kafka.fork import ForkedClientError, ForkGuard


def test_creator_may_use_its_client():
    ForkGuard().check("The client")


def test_raises_in_another_process(monkeypatch: pytest.MonkeyPatch):
    guard = ForkGuard()
    monkeypatch.setattr(os, "getpid", lambda: guard.pid + 1)
    with pytest.raises(ForkedClientError, match="The client was created by process"):
        guard.check("The client")
