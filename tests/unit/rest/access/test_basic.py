import base64
from pathlib import Path

import pytest

from fencepost.config import ConfigError
from fencepost.rest.access.basic import KNOWN_FOR_S, KeptPassword, UserFile, hashed, read_users
from fencepost.rest.access.principal import Checked, Principal


def pair(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def hash_of_bob() -> str:
    """Making one takes long, as it is to."""
    return hashed("hashed one")


@pytest.fixture
def path(tmp_path: Path, hash_of_bob: str) -> Path:
    found = tmp_path / "users.properties"
    found.write_text(f"alice = s3cret:with:colons\nbob={hash_of_bob}\nc\\ d=\\u00e4\n")
    return found


def test_plain_and_hashed_passwords_of_a_users_file_are_accepted(path: Path) -> None:
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
def test_wrong_basic_credentials_are_refused(path: Path, credentials: str) -> None:
    assert UserFile(str(path)).authenticate(credentials) is None


def test_a_hash_in_the_file_is_not_a_password(path: Path) -> None:
    line = path.read_text().splitlines()[1].partition("=")[2]
    assert UserFile(str(path)).authenticate(pair("bob", line)) is None


def test_a_changed_file_takes_effect(path: Path) -> None:
    users = UserFile(str(path))
    path.write_text("eve=new password\n")
    assert users.authenticate(pair("alice", "s3cret:with:colons")) is None
    assert users.authenticate(pair("eve", "new password")) is not None


def test_users_file_damaged_later_is_ignored_and_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users = UserFile(str(path))
    path.write_text("bob={scrypt}nonsense\n")
    assert users.authenticate(pair("bob", "hashed one")) is not None
    assert "bob" in caplog.text
    assert "nonsense" not in caplog.text
    path.unlink()
    assert users.authenticate(pair("bob", "hashed one")) is not None


@pytest.mark.parametrize(("text", "fault"), [("", "no users"), ("a=\n=b\n", "empty"), ("a={scrypt}x\n", "damaged")])
def test_users_file_without_users_or_with_damaged_entries_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "users.properties"
    path.write_text(text)
    with pytest.raises(ConfigError, match=fault):
        read_users(str(path))


def test_missing_users_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        UserFile(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["alice", "bob", "c d", "unknown", ""])
def test_login_checks_the_same_number_of_hashes_for_every_user_name(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    users, checked = UserFile(str(path)), []
    monkeypatch.setattr(KeptPassword, "is_same", lambda self, _: checked.append(self.costs))
    users.authenticate(pair(name, "x"))
    assert sorted(map(str, checked)) == ["(16384, 8, 5)", "None"]


def test_hash_of_a_lower_cost_is_still_read(path: Path) -> None:
    old = "{scrypt}16384$8$1$c2FsdHNhbHRzYWx0c2FsdA==$oKpXgUiIy3e6naSmSaLNDIZ4HzqGvPf/kZ22S7Gt5Ws="
    path.write_text(f"old={old}\nnew={hashed('new one')}\n")
    users = UserFile(str(path))
    assert users.authenticate(pair("old", "old one")) is not None
    assert users.authenticate(pair("new", "new one")) is not None
    assert users.authenticate(pair("old", "new one")) is None
