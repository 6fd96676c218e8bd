"""`fencepost new`: writes the project of a plug-in, or a pipeline, from the templates next to this module.

A project has the files of `common` and those of its kind.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Annotated, NamedTuple

import typer

import fencepost.api
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind

_TEMPLATES = files("fencepost.cli.local") / "template"
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_SUFFIX = ".tmpl"
_TAKEN = frozenset({"fencepost", "tests", "pytest", "connector", "transform"})
_TAKEN_BY_CLASSES = frozenset((*fencepost.api.__all__, "Any", "DataFrame", "Mapping", "Path", "SparkSession"))
_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class ConnectorKind(StrEnum):
    """What the connector of a new project does, and with what."""

    SOURCE = "source"
    SINK = "sink"
    STREAM = "stream"
    DATAFRAME_SOURCE = "dataframe-source"
    DATAFRAME_SINK = "dataframe-sink"


TRANSFORM = "transform"
"""The kind of a project that has a transform instead of a connector."""


class _About(NamedTuple):
    """What a kind's texts say. In the config, PLUGIN stands for the class."""

    description: str
    tests: str
    config: Mapping[str, str]


_WITH_KAFKA = "the second file starts a Kafka, and needs Java 17"
_WITH_SPARK = "starts a Spark, and needs Java 17"
_ABOUT: Mapping[str, _About] = {
    ConnectorKind.SOURCE: _About(
        "A source connector for Fencepost.",
        _WITH_KAFKA,
        {"connector.class": "PLUGIN", "file": "/tmp/lines.txt", "topic": "lines", **_JSON},
    ),
    ConnectorKind.SINK: _About(
        "A sink connector for Fencepost.",
        _WITH_KAFKA,
        {"connector.class": "PLUGIN", "topics": "orders", "database": "/tmp/orders.db", **_JSON},
    ),
    ConnectorKind.STREAM: _About(
        "A stream connector for Fencepost.",
        _WITH_KAFKA,
        {"connector.class": "PLUGIN", "topics": "orders", "target": "large-orders", **_JSON},
    ),
    ConnectorKind.DATAFRAME_SOURCE: _About(
        "A source connector for Fencepost, which Spark reads.",
        _WITH_SPARK,
        {"connector.class": "PLUGIN", "input.path": "/tmp/tables", "topic": "rows", **_JSON},
    ),
    ConnectorKind.DATAFRAME_SINK: _About(
        "A sink connector for Fencepost, which Spark writes.",
        _WITH_SPARK,
        {
            "connector.class": "PLUGIN",
            "topics": "orders",
            "path": "/tmp/orders",
            "value.schema": "id INT, total DOUBLE",
            **_JSON,
        },
    ),
    TRANSFORM: _About(
        "A transform for Fencepost.",
        "without Kafka",
        {
            "connector.class": "Datagen",
            "topic": "names",
            "fields": "id:sequence,name:word",
            "transforms": "mine",
            "transforms.mine.type": "PLUGIN",
            "transforms.mine.fields": "name",
            **_JSON,
        },
    ),
}


@dataclass(frozen=True)
class Project:
    """A project with one connector: `price-feed` has the package `price_feed` and the class `PriceFeedConnector`.

    With the kind TRANSFORM it has the transform `PriceFeed` instead.
    """

    name: str
    kind: str

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """Return the name of the plug-in's class, without the suffix of connectors."""
        return "".join(word.capitalize() for word in re.split("[-_]", self.name))

    @property
    def plugin_kind(self) -> PluginKind:
        return PluginKind.TRANSFORM if self.kind == TRANSFORM else PluginKind.CONNECTOR

    @property
    def plugin(self) -> str:
        """Return the full name of the plug-in's class."""
        return self.class_name if self.plugin_kind is PluginKind.TRANSFORM else f"{self.class_name}Connector"

    def check(self) -> None:
        """Raise ConfigError if the project cannot have this name."""
        if _NAME.fullmatch(self.name) is None:
            better = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-").lstrip("0123456789-")
            hint = f"; for example {better}" if better else ""
            raise ConfigError(f"{self.name}: a name has lower-case letters and digits, and - between words{hint}")
        if self.package in _TAKEN or self.package in sys.stdlib_module_names:
            raise ConfigError(f"{self.name}: a package of that name exists already; for example my-{self.name}")
        if not {self.class_name, self.plugin, f"{self.class_name}Task"}.isdisjoint(_TAKEN_BY_CLASSES):
            raise ConfigError(f"{self.name}: a class of that name exists already; for example my-{self.name}")

    def files(self) -> Iterator[tuple[Path, str]]:
        """Yield each file's path in the project and its text."""
        for directory in ("common", str(self.kind)):
            for path, template in _templates(_TEMPLATES / directory, Path()):
                place = Path(*(self.package if part == "PACKAGE" else part for part in path.parts))
                yield place, Template(template).substitute(self._values())

    def write(self, directory: Path) -> list[Path]:
        """Write the project, and return its files. Raises ConfigError if the directory is not empty."""
        self.check()
        return _written(directory, self.files())

    def _values(self) -> dict[str, str]:
        about = _ABOUT[self.kind]
        config = {key: value.replace("PLUGIN", self.plugin) for key, value in about.config.items()}
        return {
            "name": self.name,
            "package": self.package,
            "class": self.class_name,
            "plugin": self.plugin,
            "module": self.plugin_kind.value,
            "description": about.description,
            "tests": about.tests,
            "group": self.plugin_kind.entry_point_group,
            "config": json.dumps(config, indent=2),
        }


def _written(directory: Path, texts: Iterable[tuple[Path, str]]) -> list[Path]:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(f"{directory} exists already, and is not empty: choose another directory")
    written = []
    for path, text in texts:
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        written.append(file)
    return sorted(written)


def _templates(directory: Traversable, path: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(directory.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _templates(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield path / entry.name.removesuffix(_SUFFIX), entry.read_text()


new_app = typer.Typer(no_args_is_help=True, help="Write the project of a plug-in, or a pipeline.")


@new_app.callback()
def new() -> None:
    """Write the project of a plug-in, or a pipeline."""


_Name = Annotated[str, typer.Argument(help="The project, such as price-feed.", metavar="NAME")]
_Directory = Annotated[
    Path | None, typer.Option("--dir", help="Where the project goes. Default: a directory of its name, here.")
]


@new_app.command()
def connector(
    name: _Name,
    kind: Annotated[ConnectorKind, typer.Option(help="What the connector does.")] = ConnectorKind.SOURCE,
    directory: _Directory = None,
) -> None:
    """Write a small project with a connector that runs, its tests, and the entry point that workers find it by."""
    _write(Project(name, kind), directory)


def _of_kind(kind: ConnectorKind) -> Callable[..., None]:
    def command(name: _Name, directory: _Directory = None) -> None:
        _write(Project(name, kind), directory)

    command.__doc__ = f"The same as `new connector --kind {kind}`."
    return command


for _kind in ConnectorKind:
    new_app.command(_kind.value, hidden=True)(_of_kind(_kind))


@new_app.command()
def transform(name: _Name, directory: _Directory = None) -> None:
    """Write a small project with a transform that works on columns, its tests, and its entry point."""
    _write(Project(name, TRANSFORM), directory)


_PIPELINE = "shop.json"


@new_app.command()
def pipeline(
    directory: Annotated[Path, typer.Argument(help="Where its files go: a new or empty directory.", metavar="DIR")],
) -> None:
    """Write an example for `dev --pipeline`: a Postgres, topics, SQL, a table and Parquet files."""
    for file in _written(directory, _templates(_TEMPLATES / "pipeline", Path())):
        typer.echo(str(file))
    typer.echo(f"\nNext: fencepost dev --pipeline {directory / _PIPELINE}")


def _write(project: Project, directory: Path | None) -> None:
    target = directory or Path(project.name)
    for file in project.write(target):
        typer.echo(str(file))
    typer.echo(f"\nNext: cd {target}, and do what its README.md says.")
