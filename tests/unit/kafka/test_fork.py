import os

import pytest

from fencepost.kafka.fork import ForkedClientError, ForkGuard


def test_client_may_be_used_by_the_process_that_created_it():
    ForkGuard().check("The client")


def test_client_used_in_another_process_raises_an_error(monkeypatch: pytest.MonkeyPatch):
    guard = ForkGuard()
    monkeypatch.setattr(os, "getpid", lambda: guard.pid + 1)
    with pytest.raises(ForkedClientError, match="The client was created by process"):
        guard.check("The client")
