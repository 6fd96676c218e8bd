"""The heads of class files."""

import pytest

from fencepost.builtin.java.index import class_head
from support.jars import class_bytes


def test_the_parents_of_a_class_are_its_superclass_and_its_interfaces() -> None:
    data = class_bytes("org.example.Inner$Key", "org.example.Base", ["org.example.One", "org.example.Two"])
    head = class_head(data)
    assert head.name == "org.example.Inner$Key"
    assert head.parents == ("org.example.Base", "org.example.One", "org.example.Two")


def test_truncated_class_file_is_a_value_error() -> None:
    data = class_bytes("org.example.Thing", "org.example.Base", ["org.example.One"])
    whole = class_head(data)
    for end in range(len(data) - 6):
        with pytest.raises(ValueError):
            class_head(data[:end])
    assert class_head(data[:-6]) == whole  # fields and methods are not read


def test_bytes_of_another_format_are_refused_as_a_class_file() -> None:
    with pytest.raises(ValueError, match="not a class file"):
        class_head(b"PK\x03\x04" + bytes(100))
