"""Apicurio's converters in Java, as a plug-in: fetched once per user, and checked by SHA-256."""

from pathlib import Path

from fencepost.embedded import checksum, ivy
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java
from fencepost.java.port import Location

_VERSION = "2.6.13.Final"
_MODULE = "apicurio-registry-utils-converter"
_SHA256 = Path(__file__).with_suffix(".sha256")


def apicurio_converter() -> Location:
    expected = checksum.listed(_SHA256.read_text())
    cached = default_cache() / f"{_MODULE}-{_VERSION}"
    with locked(cached.with_name(f"{cached.name}.lock")):
        if not cached.exists():
            ivy.retrieve(find_java(), ("io.apicurio", _MODULE, _VERSION), cached, expected_jars=len(expected))
        checksum.verify(cached, expected)
    return Location(str(cached), tuple(sorted(map(str, cached.glob("*.jar")))))
