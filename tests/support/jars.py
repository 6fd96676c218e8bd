"""Small jars with services files and the heads of classes: enough for the index, which runs no Java."""

import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

CONNECT = "org.apache.kafka.connect."
SOURCE, SINK = CONNECT + "source.SourceConnector", CONNECT + "sink.SinkConnector"
TRANSFORM, PREDICATE = CONNECT + "transforms.Transformation", CONNECT + "transforms.predicates.Predicate"
CONVERTER, HEADER_CONVERTER = CONNECT + "storage.Converter", CONNECT + "storage.HeaderConverter"


def class_bytes(name: str, parent: str = "java.lang.Object", interfaces: Sequence[str] = ()) -> bytes:
    """Return a `.class` file without fields and methods, with constants of several kinds before the names."""
    pool = [b"\x05" + bytes(8), None, b"\x06" + bytes(8), None, b"\x12" + bytes(4), b"\x0f" + bytes(3)]
    places = []
    for each in (name, parent, *interfaces):
        text = each.replace(".", "/").encode()
        pool.append(b"\x01" + struct.pack(">H", len(text)) + text)
        pool.append(b"\x07" + struct.pack(">H", len(pool)))
        places.append(len(pool))
    constants = b"".join(each for each in pool if each is not None)
    own = struct.pack(f">HHHH{len(interfaces)}H", 0x21, places[0], places[1], len(interfaces), *places[2:])
    return struct.pack(">IHHH", 0xCAFEBABE, 0, 61, len(pool) + 1) + constants + own + bytes(6)


def write_jar(
    path: Path, services: Mapping[str, Sequence[str]] | None = None, classes: Mapping[str, bytes] | None = None
) -> Path:
    """Write a jar; its directory is made. `services` maps interfaces to the lines of their files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        for interface, lines in (services or {}).items():
            jar.writestr(f"META-INF/services/{interface}", "\n".join(lines))
        for name, data in (classes or {}).items():
            jar.writestr(name.replace(".", "/") + ".class", data)
    return path
