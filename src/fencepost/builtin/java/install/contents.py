"""What a plug-in offers, by its jars; no JVM is needed."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from fencepost.builtin.java.class_file import ClassHead, class_head
from fencepost.builtin.java.index import Found, JavaIndex, JavaKind, kinds_by_parents
from fencepost.builtin.java.port import JavaClass, Location


def offered(directory: Path) -> list[Found]:
    """Return the plug-ins in a directory of jars.

    They are named by services files. If there is none, as in plug-ins of before Kafka 3.6, all classes are looked at.
    """
    index = JavaIndex([str(directory.parent)])
    location = next((one for one in index.locations if one.path == str(directory.absolute())), None)
    if location is None:
        return []
    named = [
        Found(kind, one)
        for kind in JavaKind
        for classes in index.named(kind).values()
        for one in classes
        if one.location == location
    ]
    return named or _looked_for(location)


def _looked_for(location: Location) -> list[Found]:
    heads = {head.name: head for head in _heads(location)}
    parents = {name: head.parents for name, head in heads.items()}
    return [
        Found(kind, JavaClass(name, location))
        for name, head in sorted(heads.items())
        if head.is_creatable
        for kind in sorted(kinds_by_parents(name, lambda each: parents.get(each, ())))
    ]


def _heads(location: Location) -> Iterator[ClassHead]:
    for archive in filter(zipfile.is_zipfile, location.archives):
        with zipfile.ZipFile(archive) as jar:
            for name in jar.namelist():
                if name.endswith(".class") and not name.startswith("META-INF/"):
                    try:
                        yield class_head(jar.read(name))
                    except (ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
                        continue
