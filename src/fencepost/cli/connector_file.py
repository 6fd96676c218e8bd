"""Reads files of connectors: JSON as Kafka Connect's REST API takes it, YAML, Strimzi's KafkaConnector, properties."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from fencepost.config.file import read_properties


class _TextLoader(yaml.BaseLoader):  # type: ignore[misc]
    """Every scalar is a text, as it is written: `010`, `no`."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        double = next((key for key in keys if keys.count(key) > 1), None)
        if double is not None:
            raise ValueError(f"line {node.start_mark.line + 1}: {double}: the key is there twice")
        return dict(super().construct_mapping(node, deep))


def read_yaml(text: str) -> list[Any]:
    """Return the documents of a text. Raises ValueError, which names the line."""
    try:
        return [each for each in yaml.load_all(text, Loader=_TextLoader) if each not in (None, "")]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from None


STDIN = "-"
_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_STRIMZI = "KafkaConnector"
_OF_SPEC = {"connector.class": "class", "tasks.max": "tasksMax", "connector.plugin.version": "version"}
_IGNORED = ("name", "connector.class", "tasks.max")  # in spec.config, as the operator does
_STATES = {"running": "RUNNING", "paused": "PAUSED", "stopped": "STOPPED"}
_NEXT = 'expected {"name": …, "config": {…}}, a config with "name", a list of these, or {"connectors": [these]}'


@dataclass(frozen=True)
class Fault:
    """What is wrong in a file: `key` is a key of a config, or empty."""

    file: str
    name: str
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.name, self.key, self.text) if part)

    def masked(self, hide: Callable[[str], str]) -> "Fault":
        """Return it without secrets in its text: file, connector and key have none."""
        return replace(self, text=hide(self.text))


@dataclass(frozen=True)
class WantedConnector:
    """A connector as a file describes it.

    Attributes:
        state: The state that it should always have, `RUNNING`, `PAUSED` or `STOPPED`; None: the one that it has.
        creation: Further fields of the request that creates it, such as `initial_state` and `initial_offsets`.
    """

    file: str
    name: str
    config: Mapping[str, str] = field(repr=False)
    state: str | None = None
    creation: Mapping[str, Any] = field(default_factory=dict)

    def fault(self, key: str, text: str) -> Fault:
        """Return a fault of this connector."""
        return Fault(self.file, self.name, key, text)


@dataclass
class FilesContent:
    """What files contain.

    Attributes:
        skipped: What was passed over, such as other kinds of Kubernetes' objects, each with the reason.
        postgres: The `postgres` of a pipeline's file, by the file's name.
    """

    wanted: list[WantedConnector] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    postgres: dict[str, object] = field(default_factory=dict)


class _NoConnectorError(ValueError):
    """A document does not describe a connector; `key` is the key that is wrong, or empty."""

    def __init__(self, text: str, key: str = "", name: str = "") -> None:
        super().__init__(text)
        self.key, self.name = key, name


def read_files(paths: Sequence[str], stdin: Callable[[], str] = sys.stdin.read) -> FilesContent:
    """Read files, directories with all below them, and `-` for standard input. All faults are returned together."""
    content = FilesContent()
    for given in paths:
        if given == STDIN:
            _read(content, STDIN, stdin)
            continue
        path = Path(given)
        files = list(_files_in(path)) if path.is_dir() else [path]
        if not files:
            content.faults.append(Fault(given, "", "", "no .json, .yaml or .yml file is in this directory"))
        for each in files:
            _read(content, str(each), lambda each=each: each.read_text(encoding="utf-8"))  # type: ignore[misc]
    _find_doubles(content)
    return content


def _files_in(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(directory).parts)
        if path.suffix in _SUFFIXES and path.is_file() and not is_hidden:
            yield path


def _read(content: FilesContent, file: str, read: Callable[[], str]) -> None:
    try:
        documents = list(_documents(file, read))
    except (OSError, ValueError) as error:
        content.faults.append(Fault(file, "", "", str(error)))
        return
    for document in _unpacked(content, file, documents):
        if isinstance(document, Mapping) and "apiVersion" in document and document.get("kind") != _STRIMZI:
            content.skipped.append(f"{file}: a {document.get('kind')}, and no {_STRIMZI}")
            continue
        try:
            content.wanted.append(_connector(file, document))
            content.skipped += _ignored(file, document)
        except _NoConnectorError as error:
            content.faults.append(Fault(file, error.name, error.key, str(error)))


def _documents(file: str, read: Callable[[], str]) -> Iterator[Any]:
    if file.endswith(".properties"):
        yield dict(read_properties(Path(file)))
        return
    text = read()
    is_json = file.endswith(".json") or (file == STDIN and text.lstrip()[:1] in ("{", "["))
    found = [_parsed(text)] if is_json else read_yaml(text)
    for each in found:
        if isinstance(each, list):
            yield from each
        elif isinstance(each, Mapping) and each and all(isinstance(v, Mapping) and "info" in v for v in each.values()):
            yield from (one["info"] for one in each.values())  # GET /connectors?expand=info
        else:
            yield each


def _unpacked(content: FilesContent, file: str, documents: Sequence[Any]) -> Iterator[Any]:
    """Yield documents; of a pipeline's file, its connectors."""
    for each in documents:
        if not isinstance(each, Mapping) or not isinstance(each.get("connectors"), list):
            yield each
            continue
        for key in each:
            if key not in ("connectors", "postgres"):
                content.faults.append(Fault(file, "", str(key), "beside connectors there may be postgres"))
        if "postgres" in each:
            content.postgres[file] = each["postgres"]
        yield from each["connectors"]


def _parsed(text: str) -> Any:
    """Parse JSON. Numbers stay as they are written, because values of a config are texts."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        double = next((key for key in keys if keys.count(key) > 1), None)
        if double is not None:
            raise ValueError(f"{double}: the key is there twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: no JSON: {error.msg}") from None


def _connector(file: str, document: Any) -> WantedConnector:
    if not isinstance(document, Mapping):
        raise _NoConnectorError(_NEXT)
    if document.get("kind") == _STRIMZI:
        return _of_strimzi(file, document)
    if isinstance(document.get("config"), Mapping):
        name, config = document.get("name"), document["config"]
        creation = {key: document[key] for key in ("initial_state", "initial_offsets") if document.get(key)}
    else:
        name, config, creation = document.get("name"), document, {}
    if not isinstance(name, str) or not name:
        raise _NoConnectorError(_NEXT if "connector.class" not in config else "the name is missing", "name")
    texts = _texts(name, config)
    if texts.get("name", name) != name:
        raise _NoConnectorError(f"the config has another name, {texts['name']}", "name", name)
    return WantedConnector(file, name, {**texts, "name": name}, None, creation)


def _of_strimzi(file: str, document: Mapping[str, Any]) -> WantedConnector:
    metadata, spec = document.get("metadata"), document.get("spec")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name or not isinstance(spec, Mapping):
        raise _NoConnectorError(f"a {_STRIMZI} needs metadata.name and spec")
    own = {key: spec.get(field) for key, field in _OF_SPEC.items()}
    given = spec.get("config") or {}
    if not isinstance(given, Mapping):
        raise _NoConnectorError("expected keys and values", "spec.config", name)
    rest = {key: value for key, value in given.items() if key not in _IGNORED}
    config = _texts(name, {**rest, **{key: value for key, value in own.items() if value is not None}})
    state = str(spec.get("state") or ("paused" if str(spec.get("pause")).lower() == "true" else "running")).lower()
    if state not in _STATES:
        raise _NoConnectorError(f"{state}: expected running, paused or stopped", "spec.state", name)
    return WantedConnector(file, name, {**config, "name": name}, _STATES[state])


def _ignored(file: str, document: Mapping[str, Any]) -> Iterator[str]:
    if document.get("kind") != _STRIMZI:
        return
    for key in _IGNORED:
        if key in (document["spec"].get("config") or {}):
            field = f"spec.{_OF_SPEC[key]}" if key in _OF_SPEC else "metadata.name"
            name = document["metadata"]["name"]
            yield f"{file}: {key} of {name} in spec.config, as Strimzi's operator does: {field} counts"


def _texts(name: str, config: Mapping[str, Any]) -> dict[str, str]:
    texts = {}
    for key, value in config.items():
        if isinstance(value, bool):
            texts[str(key)] = str(value).lower()
        elif isinstance(value, str):
            texts[str(key)] = value
        else:
            kind = "null" if value is None else "an object" if isinstance(value, Mapping) else "a list"
            raise _NoConnectorError(f"the value is {kind}: write a text, or leave the key out", str(key), name)
    return texts


def _find_doubles(content: FilesContent) -> None:
    first: dict[str, str] = {}
    for each in content.wanted:
        if each.name in first:
            content.faults.append(each.fault("name", f"{first[each.name]} has a connector of this name, too"))
        first.setdefault(each.name, each.file)
