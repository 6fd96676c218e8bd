import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.builtin.provider.local import FileConfigProvider
from fencepost.config import ConfigError
from fencepost.config.file import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("a = 1 ", {"a": "1 "}),
        ("  a\t:\t=1", {"a": "=1"}),
        ("# comment\n! comment\n\n   \na=#1", {"a": "#1"}),
        ("a=one,\\\n    two,\\\n  three", {"a": "one,two,three"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b\\ c=d", {"a=b c": "d"}),
        ("a=\\t\\n\\q", {"a": "\t\nq"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("key", {"key": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=http://:8083", {"listeners": "http://:8083"}),
        ("a=1\\", {"a": "1"}),
        ("a=x \\\n#not a comment", {"a": "x #not a comment"}),
        ("\\\nb=2", {"b": "2"}),
        ("\\\n# a comment\nb=2", {"b": "2"}),
        ("\\\n  \\\n\n   \nb=2", {"b": "2"}),
        ("\\", {}),
    ],
)
def test_properties_text_is_parsed_as_in_java(text, expected):
    assert parse_properties(text) == expected


def test_malformed_properties_escape_is_reported_with_source_and_line():
    with pytest.raises(ConfigError) as caught:
        parse_properties("a=1\n\nb=\\u12\nc=\\\n\\uzzzz", source="worker.properties")
    assert [message.split(":")[0] for message in caught.value.messages] == [
        "worker.properties, line 3",
        "worker.properties, line 4",
    ]


def test_missing_properties_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties: cannot be read: No such file"):
        read_properties(tmp_path / "nowhere.properties")


def test_properties_are_read_as_utf8_or_else_latin1(tmp_path):
    (tmp_path / "utf8").write_bytes("a=é".encode())
    (tmp_path / "latin1").write_bytes("a=é".encode("iso-8859-1"))
    assert read_properties(tmp_path / "utf8") == read_properties(tmp_path / "latin1") == {"a": "é"}


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text)


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_escaped_properties_survive_a_round_trip(values):
    text = "\n".join(f"{_escaped(k)}={_escaped(v)}" for k, v in values.items())
    assert parse_properties(text) == values


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_properties_file_in_utf16_or_utf32_is_refused_by_name(tmp_path, encoding):
    (tmp_path / "f.properties").write_bytes("bootstrap.servers=b".encode(encoding))
    with pytest.raises(ConfigError, match=rf"f\.properties: it is encoded in {encoding.upper()}: save it as UTF-8"):
        read_properties(tmp_path / "f.properties")


def test_file_provider_refuses_a_file_that_is_not_utf8(tmp_path):
    file = tmp_path / "secrets.properties"
    file.write_bytes("password=pässwörd".encode("iso-8859-1"))
    with pytest.raises(ConfigError, match=r"it is not UTF-8 \(byte 10\): save it as UTF-8"):
        FileConfigProvider({}).get(str(file), {"password"})
    file.write_bytes("password=pässwörd".encode())
    assert FileConfigProvider({}).get(str(file), {"password"}).values == {"password": "pässwörd"}
