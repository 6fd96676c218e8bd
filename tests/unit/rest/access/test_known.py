from fencepost.rest.access.guard import KnownCredentials
from fencepost.rest.access.principal import Checked, Principal


def test_remembered_credentials_expire() -> None:
    now = [0.0]
    known = KnownCredentials(lambda: now[0])
    known.keep("Basic a", Checked(Principal("a"), 5.0))
    found = known.get("Basic a")
    assert (found and found.principal.name, known.get("Basic b")) == ("a", None)
    now[0] = 5.0
    assert known.get("Basic a") is None


def test_oldest_credentials_are_forgotten_and_none_are_kept_in_plain_text() -> None:
    known = KnownCredentials(lambda: 0.0)
    for number in range(1_001):
        known.keep(f"Basic secret{number}", Checked(Principal(str(number)), 1.0))
    assert known.get("Basic secret0") is None
    assert known.get("Basic secret1") is not None
    assert "secret" not in repr(vars(known))
