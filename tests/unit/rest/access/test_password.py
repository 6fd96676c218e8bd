import pytest

from fencepost.rest.access.basic import hashed, kept


def test_a_hash_accepts_its_password_only() -> None:
    text = hashed("s3cret", lambda size: b"s" * size)
    assert "s3cret" not in text
    password = kept(text)
    assert password.is_same("s3cret")
    assert not password.is_same("s3cre")
    assert not password.is_same(text)


def test_two_hashes_of_a_password_differ() -> None:
    assert hashed("s3cret") != hashed("s3cret")


def test_plain_text_password_accepts_only_itself() -> None:
    password = kept("pässwörd")
    assert password.is_same("pässwörd")
    assert not password.is_same("pässword")
    assert "rd" not in repr(password).replace("KeptPassword", "")


@pytest.mark.parametrize(
    "text", ["{scrypt}", "{scrypt}16384$8$1$AAAA", "{scrypt}16383$8$1$AAAA$AAAA", "{scrypt}1073741824$8$1$AAAA$AAAA"]
)
def test_damaged_or_too_costly_hash_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="hash-password") as caught:
        kept(text)
    assert "AAAA" not in str(caught.value)
