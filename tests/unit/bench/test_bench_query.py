"""The page names a peer that cannot be installed, and has no figures of it."""

from pathlib import Path
from typing import Any

import pytest
from bench import query, query_peers


def test_peer_that_cannot_be_installed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*words: str) -> None:
        raise query_peers.NoEnvironmentError("there is no wheel")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(query_peers, "_uv", fail)
    no_broker: Any = None
    assert query._peer(query.QUIX, no_broker, tmp_path) is None
    assert query._settings([query.QUIX])["pairs"][query.QUIX].startswith("absent")
