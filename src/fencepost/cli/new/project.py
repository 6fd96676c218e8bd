"""The files of a new project, from the templates next to this module."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from fencepost.config import ConfigError
from fencepost.plugin import PluginKind

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_SUFFIX = ".tmpl"
_TAKEN = frozenset({"fencepost", "tests", "pytest", "connector"})


class ConnectorKind(StrEnum):
    """What the connector of a new project does."""

    SOURCE = "source"
    SINK = "sink"
    STREAM = "stream"


_CONFIGS: dict[ConnectorKind, dict[str, str]] = {
    ConnectorKind.SOURCE: {"file": "/tmp/lines.txt", "topic": "lines"},
    ConnectorKind.SINK: {"topics": "orders", "database": "/tmp/orders.db"},
    ConnectorKind.STREAM: {"topics": "orders", "target": "large-orders"},
}
_JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class Project:
    """A project with one connector: `price-feed` has the package `price_feed` and the class `PriceFeedConnector`."""

    name: str
    kind: ConnectorKind

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """Return the name of the connector's class, without its suffix."""
        return "".join(word.capitalize() for word in re.split("[-_]", self.name))

    def check(self) -> None:
        """Raise ConfigError if the project cannot have this name."""
        if _NAME.fullmatch(self.name) is None:
            better = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-").lstrip("0123456789-")
            hint = f"; for example {better}" if better else ""
            raise ConfigError(f"{self.name}: a name has lower-case letters and digits, and - between words{hint}")
        if self.package in _TAKEN or self.package in sys.stdlib_module_names:
            raise ConfigError(f"{self.name}: a package of that name exists already; for example my-{self.name}")

    def files(self) -> Iterator[tuple[Path, str]]:
        """Yield each file's path in the project and its text."""
        templates = files("fencepost.cli.new") / "template"
        for directory in ("common", self.kind.value):
            for path, template in _templates(templates / directory, Path()):
                place = Path(*(self.package if part == "PACKAGE" else part for part in path.parts))
                yield place, Template(template).substitute(self._values())

    def write(self, directory: Path) -> list[Path]:
        """Write the project, and return its files. Raises ConfigError if the directory is not empty."""
        self.check()
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ConfigError(f"{directory} exists already: choose another name, or another directory with --dir")
        written = []
        for path, text in self.files():
            file = directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            written.append(file)
        return sorted(written)

    def _values(self) -> dict[str, str]:
        config = {"connector.class": f"{self.class_name}Connector", **_CONFIGS[self.kind]}
        config |= {"value.converter": _JSON, "value.converter.schemas.enable": "false"}
        return {
            "name": self.name,
            "package": self.package,
            "class": self.class_name,
            "description": f"A {self.kind.value} connector for Fencepost.",
            "group": PluginKind.CONNECTOR.entry_point_group,
            "config": json.dumps(config, indent=2),
        }


def _templates(directory: Traversable, path: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(directory.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _templates(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield path / entry.name.removesuffix(_SUFFIX), entry.read_text()
