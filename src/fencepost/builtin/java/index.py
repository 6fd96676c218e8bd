"""The Java plug-ins of `plugin.path`, found without a JVM: by the tables of contents of their jars.

The layout is Kafka Connect's. An entry of `plugin.path` is a directory of plug-ins, or one archive. In a directory each
directory and each archive is a plug-in, a location, whose classes share a class loader. What a location offers is named
by the services files (`META-INF/services/…`) of its archives. A class that none of them names is found by its `.class`
file, if a config gives its full name.

A directory may have Python plug-ins as well: what holds neither an archive nor a class is none of Java's. Nor is what
has a name that begins with a dot: there a plug-in is put together before it gets its place.
"""

import os
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from fencepost.builtin.java.port import JavaClass, Location

_SERVICES = "META-INF/services/"
_ARCHIVES = (".jar", ".zip")
_UNREADABLE = (OSError, zipfile.BadZipFile, NotImplementedError, ValueError, RuntimeError)
_NAME = re.compile(r"[\w$]+(\.[\w$]+)*")
_MAGIC = 0xCAFEBABE
_UTF8, _CLASS, _LONG, _DOUBLE = 1, 7, 5, 6
_PUBLIC, _INTERFACE, _ABSTRACT = 0x0001, 0x0200, 0x0400
# The size of each kind of constant after its tag; text has a size of its own.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


class JavaKind(StrEnum):
    """A kind of Java plug-in."""

    SOURCE = "source"
    SINK = "sink"
    TRANSFORM = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    CONFIG_PROVIDER = "configprovider"


_CONNECT = "org.apache.kafka.connect."
KINDS = {
    f"{_CONNECT}source.SourceConnector": JavaKind.SOURCE,
    f"{_CONNECT}sink.SinkConnector": JavaKind.SINK,
    f"{_CONNECT}transforms.Transformation": JavaKind.TRANSFORM,
    f"{_CONNECT}transforms.predicates.Predicate": JavaKind.PREDICATE,
    f"{_CONNECT}storage.Converter": JavaKind.CONVERTER,
    f"{_CONNECT}storage.HeaderConverter": JavaKind.HEADER_CONVERTER,
    "org.apache.kafka.common.config.provider.ConfigProvider": JavaKind.CONFIG_PROVIDER,
}
"""What a class is that extends or implements one of these."""


class Found(NamedTuple):
    """A plug-in: a class, where it is, and what it is."""

    kind: JavaKind
    java_class: JavaClass


class JavaIndex:
    """What there is in the directories and archives of `plugin.path` when this is created. Reads only; thread-safe."""

    def __init__(self, plugin_path: Sequence[str]) -> None:
        self.failures: list[str] = []
        """A text for each archive that cannot be read; the others of its location are used."""
        self.locations = tuple(dict.fromkeys(_locations(plugin_path, self.failures)))
        self._named: dict[JavaKind, dict[str, list[JavaClass]]] = {kind: {} for kind in JavaKind}
        for location in self.locations:
            for kind, name in _services(location, self.failures):
                classes = self._named[kind].setdefault(name, [])
                if all(one.location != location for one in classes):
                    classes.append(JavaClass(name, location))

    def named(self, kind: JavaKind) -> Mapping[str, Sequence[JavaClass]]:
        """Return the classes that services files name, by full name: one for each location that has it."""
        return self._named[kind]

    def outside(self, name: str) -> list[Found]:
        """Return the plug-ins of that full name that no services file names."""
        if not _NAME.fullmatch(name):
            return []
        found = []
        for location in self.locations:
            with _parents_in(location) as parents:
                kinds = kinds_by_parents(name, parents)
                found += [Found(kind, JavaClass(name, location)) for kind in sorted(kinds)]
        return [one for one in found if one.java_class not in self._named[one.kind].get(name, ())]


def is_archive(path: Path) -> bool:
    """Say whether a path has the name of a jar."""
    return path.suffix.lower() in _ARCHIVES


def _locations(plugin_path: Sequence[str], failures: list[str]) -> Iterator[Location]:
    for entry in plugin_path:
        top = Path(entry).absolute()
        if is_archive(top):
            if not top.is_file():
                failures.append(f"plugin.path: {entry} is not a file")
            else:
                yield Location(str(top), (str(top),))
        elif top.is_dir():  # what is missing is a failure of the registry, which looks for Python there
            for path in _sorted_listing(top, []):  # the registry says so if it cannot be read
                archives = () if path.name.startswith(".") else _archives_of(path, failures)
                if archives:
                    yield Location(str(path), archives)


def _archives_of(path: Path, failures: list[str]) -> tuple[str, ...]:
    """Return what a location's classes are loaded from: its archives, or else the location itself if it has classes."""
    if is_archive(path):
        return (str(path),) if path.is_file() else ()
    is_of_python = path.name == "__pycache__" or (path / "__init__.py").is_file()
    if is_of_python or not path.is_dir():
        return ()
    archives, has_classes, seen = [], False, set()
    waiting = [path]
    while waiting:
        directory = waiting.pop()
        real = os.path.realpath(directory)
        if real in seen:  # a link to a directory above
            continue
        seen.add(real)
        for each in _sorted_listing(directory, failures):
            if is_archive(each) and each.is_file():
                archives.append(str(each))
            elif each.is_dir():
                waiting.append(each)
            else:
                has_classes = has_classes or each.suffix == ".class"
    if archives:
        return tuple(sorted(archives))
    return (str(path),) if has_classes else ()


def _sorted_listing(directory: Path, failures: list[str]) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        failures.append(f"plugin.path: {directory} cannot be read: {error.strerror}")
        return []


def _services(location: Location, failures: list[str]) -> Iterator[tuple[JavaKind, str]]:
    for archive in location.archives:
        try:
            with closing(_Archive(archive)) as opened:
                for interface, kind in KINDS.items():
                    text = opened.read(_SERVICES + interface)
                    for name in () if text is None else _names(text.decode("utf-8", "replace")):
                        yield kind, name
        except _UNREADABLE as error:
            failures.append(f"plugin.path: {archive} is not a jar that can be read: {error}; replace it")


def _names(text: str) -> Iterator[str]:
    for line in text.splitlines():
        name = line.partition("#")[0].strip()
        if _NAME.fullmatch(name):
            yield name


def kinds_by_parents(name: str, parents: Callable[[str], Sequence[str]]) -> set[JavaKind]:
    """Return what a class is, by all that it extends or implements; `parents` are those of one class."""
    found: set[JavaKind] = set()
    waiting, seen = [name], set()
    while waiting:
        each = waiting.pop()
        if each in KINDS:
            found.add(KINDS[each])
        elif each not in seen:
            seen.add(each)
            waiting += parents(each)
    return found


class _Archive:
    """A jar, or a directory of classes, that is open."""

    def __init__(self, path: str) -> None:
        self._directory = Path(path)
        self._zip = None if self._directory.is_dir() else zipfile.ZipFile(path)

    def close(self) -> None:
        if self._zip is not None:
            self._zip.close()

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None if there is none."""
        if self._zip is None:
            path = self._directory / name
            return path.read_bytes() if path.is_file() else None
        try:
            return self._zip.read(name)
        except KeyError:
            return None


@contextmanager
def _parents_in(location: Location) -> Iterator[Callable[[str], Sequence[str]]]:
    """Yield what returns the names of what a class of a location extends and implements; none if it is not there.

    An archive that cannot be read has no classes: it is among the failures of the index.
    """
    with ExitStack() as opened:
        archives = []
        for path in location.archives:
            with suppress(OSError, zipfile.BadZipFile):
                archives.append(opened.enter_context(closing(_Archive(path))))

        def parents(name: str) -> Sequence[str]:
            for archive in archives:
                with suppress(*_UNREADABLE):
                    data = archive.read(name.replace(".", "/") + ".class")
                    if data is not None:
                        return class_head(data).parents
            return ()

        yield parents


class ClassHead(NamedTuple):
    """The head of a `.class` file (JVM specification, 4.1).

    Names are as Java code has them, `java.lang.Object`. `parents`: the superclass, then the interfaces.
    """

    name: str
    parents: tuple[str, ...]
    is_creatable: bool = True
    """Whether it is public, and neither abstract nor an interface."""


def class_head(data: bytes) -> ClassHead:
    """Return the head of a class. Raises ValueError if the bytes are no class."""
    try:
        return _read_head(data)
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged class file: {error}") from error


def _read_head(data: bytes) -> ClassHead:
    magic, _, _, count = struct.unpack_from(">IHHH", data)
    if magic != _MAGIC:
        raise ValueError("not a class file")
    texts: dict[int, str] = {}
    classes: dict[int, int] = {}
    at, index = 10, 1
    while index < count:
        tag = data[at] if at < len(data) else 0
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at + 1)
            texts[index] = data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            if tag == _CLASS:
                (classes[index],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        index += 2 if tag in (_LONG, _DOUBLE) else 1  # these take two places
    flags, own, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    parents = struct.unpack_from(f">{interfaces}H", data, at + 8)

    def named(place: int) -> str:
        return texts[classes[place]].replace("/", ".")

    is_creatable = flags & (_PUBLIC | _INTERFACE | _ABSTRACT) == _PUBLIC
    return ClassHead(named(own), tuple(named(each) for each in (parent, *parents) if each), is_creatable)


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
    heads: dict[str, ClassHead] = {}
    for archive in filter(zipfile.is_zipfile, location.archives):
        with zipfile.ZipFile(archive) as jar:
            for name in jar.namelist():
                if name.endswith(".class") and not name.startswith("META-INF/"):
                    with suppress(ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
                        head = class_head(jar.read(name))
                        heads[head.name] = head

    def parents(name: str) -> Sequence[str]:
        return heads[name].parents if name in heads else ()

    return [
        Found(kind, JavaClass(name, location))
        for name, head in sorted(heads.items())
        if head.is_creatable
        for kind in sorted(kinds_by_parents(name, parents))
    ]
