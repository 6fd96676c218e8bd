import base64
from pathlib import Path

import pytest

from fencepost.config import ConfigError
from fencepost.rest.access.basic import KNOWN_FOR_S, UserFile, read_users
from fencepost.rest.access.password import hashed
from fencepost.rest.access.principal import Checked, Principal


def pair(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "users.properties"
    found.write_text(f"alice = s3cret:with:colons\nbob={hashed('hashed one')}\nc\\ d=\\u00e4\n")
    return found


def test_users_of_a_file_of_kafka_connect_and_of_hashes(path: Path) -> None:
    users = UserFile(str(path), now_s=lambda: 100.0)
    for name, password in (("alice", "s3cret:with:colons"), ("bob", "hashed one"), ("c d", "ä")):
        assert users.authenticate(pair(name, password)) == Checked(Principal(name), 100.0 + KNOWN_FOR_S)


@pytest.mark.parametrize(
    "credentials",
    [
        pair("alice", "s3cret"), pair("alice", ""), pair("Alice", "s3cret:with:colons"), pair("nobody", ""),
        pair("", "s3cret:with:colons"), base64.b64encode(b"alice").decode(), "", "%%%", "/w==", "c2VjcmV0",
    ],
)  # fmt: skip
def test_anything_else_is_wrong(path: Path, credentials: str) -> None:
    assert UserFile(str(path)).authenticate(credentials) is None


def test_a_hash_in_the_file_is_not_a_password(path: Path) -> None:
    line = path.read_text().splitlines()[1].partition("=")[2]
    assert UserFile(str(path)).authenticate(pair("bob", line)) is None


def test_a_changed_file_takes_effect(path: Path) -> None:
    users = UserFile(str(path))
    path.write_text("eve=new password\n")
    assert users.authenticate(pair("alice", "s3cret:with:colons")) is None
    assert users.authenticate(pair("eve", "new password")) is not None


def test_a_file_that_was_damaged_later_changes_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users = UserFile(str(path))
    path.write_text("bob={scrypt}nonsense\n")
    assert users.authenticate(pair("bob", "hashed one")) is not None
    assert "bob" in caplog.text
    assert "nonsense" not in caplog.text
    path.unlink()
    assert users.authenticate(pair("bob", "hashed one")) is not None


@pytest.mark.parametrize(("text", "fault"), [("", "no users"), ("a=\n=b\n", "empty"), ("a={scrypt}x\n", "damaged")])
def test_a_file_without_users_or_with_damaged_ones_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "users.properties"
    path.write_text(text)
    with pytest.raises(ConfigError, match=fault):
        read_users(str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        UserFile(str(tmp_path / "nowhere"))
