"""Asks workers, or the plug-ins of a directory, what is wrong with configs, before anything changes."""

import difflib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson
import typer

from fencepost.builtin.java.install.known import plugin_of
from fencepost.cli.client import BOOTSTRAP, DEV, read_worker_file
from fencepost.cli.connect import RefusedError
from fencepost.cli.connector_file import Fault, WantedConnector
from fencepost.cli.masking import Masking
from fencepost.cluster.errors import BadRequestError
from fencepost.config.connector_limit import keep_from_connectors
from fencepost.config.reference import has_references
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind, PluginRegistry, use_plugin_path
from fencepost.rest.response import to_json
from fencepost.worker.settings import limit_files
from fencepost.worker.validation.typo import SHORTEST, SIMILAR
from fencepost.worker.validation.validation import validate_connector

_CLASS = "connector.class"
_AT_ONCE = 4
_SIMILAR_CLASS = 0.9
_ALL_PLUGINS = ", available connectors are: "
_SIMILAR_TO_WRONG = 0.75  # a key that nothing reads, to one that is missing or wrong


@dataclass(frozen=True)
class Verdict:
    """What workers say about a config: what is wrong, and which keys look like typos."""

    faults: Sequence[Fault]
    warnings: Sequence[Fault]


class Workers(Protocol):
    """Workers, over REST, or what answers in their place. Both raise RefusedError."""

    def put(self, *parts: object, body: Any) -> Any: ...

    def find(self, *parts: object) -> Any: ...


class Validation:
    """Validates on one cluster. Learns on the way which keys are secret."""

    def __init__(self, connect: Workers, masking: Masking) -> None:
        self._connect = connect
        self._masking = masking
        self._classes: list[str] | None = None

    def validate(self, wanted: Sequence[WantedConnector], known: Sequence[Fault] = ()) -> Verdict:
        """Return what is wrong with all of them, together. Raises as `Connect` does if nobody answers.

        Args:
            known: Faults that were found before: nothing more is said of their keys.
        """
        left_out = {(fault.name, fault.key) for fault in known}
        for each in wanted:
            self._masking.show(each.name)
            self._masking.remember(each.config)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            verdicts = list(pool.map(self._of_one, wanted))
        found = (fault for verdict in verdicts for fault in verdict.faults)
        faults = [fault for fault in found if (fault.name, fault.key) not in left_out]
        return Verdict(faults, [warning for verdict in verdicts for warning in verdict.warnings])

    def _of_one(self, wanted: WantedConnector) -> Verdict:
        name = wanted.config.get(_CLASS)
        if not name:
            return Verdict([wanted.fault(_CLASS, "the class of the connector is missing")], [])
        try:
            report = self._connect.put("connector-plugins", name, "config", "validate", body=dict(wanted.config))
        except RefusedError as error:
            return Verdict([wanted.fault(_CLASS, self._explained(name, self._masking.text(str(error))))], [])
        definitions = {one["definition"]["name"]: one["definition"] for one in report["configs"] if one["definition"]}
        self._masking.declare(name, (key for key, one in definitions.items() if one["type"] == "PASSWORD"))
        self._masking.remember(wanted.config)
        return Verdict(self._faults(wanted, report, definitions), self._warnings(wanted, report, definitions))

    def _faults(
        self, wanted: WantedConnector, report: Mapping[str, Any], definitions: Mapping[str, Any]
    ) -> list[Fault]:
        found, unread = [], [key for key in wanted.config if key not in definitions]
        for one in report["configs"]:
            for text in one["value"]["errors"]:
                key = str(one["value"]["name"])
                near = None if key in wanted.config else _near(key, unread, _SIMILAR_TO_WRONG)
                hint = "" if near is None else f" (the config has {near})"
                found.append(wanted.fault(key, self._masking.text(text) + hint))
        return found

    def _warnings(
        self, wanted: WantedConnector, report: Mapping[str, Any], definitions: Mapping[str, Any]
    ) -> list[Fault]:
        """Return the worker's own warnings; for Kafka Connect, which has none, keys that resemble declared ones."""
        if "warnings" in report:
            said = ((one["name"], str(one["message"]).removeprefix(f"{one['name']}: ")) for one in report["warnings"])
            return [wanted.fault(key, self._masking.text(text)) for key, text in said]
        declared = tuple(f"{key}." for key in definitions)  # what is below a key is often handed on as it is
        unknown = [
            key
            for key in wanted.config
            if key not in definitions and len(key) >= SHORTEST and not key.startswith(declared)
        ]
        near = {key: _near(key, definitions, SIMILAR) for key in unknown}
        return [
            wanted.fault(key, f"nothing reads this key: {other} is similar") for key, other in near.items() if other
        ]

    def _explained(self, name: str, message: str) -> str:
        """Return why a class cannot be used, as the worker says it.

        Kafka Connect lists all its plug-ins where one is not installed; in place of them is what to do.
        """
        if _ALL_PLUGINS not in message:
            return message
        if self._classes is None:
            self._classes = [str(one["class"]) for one in self._connect.find("connector-plugins") or []]
        known = plugin_of(name)
        if known is not None:
            return f"{name} is not installed on these workers: it is in {known.place}"
        near = difflib.get_close_matches(name, self._classes, 1, _SIMILAR_CLASS)
        return f"{name} is not installed on these workers" + (f"; did you mean {near[0]}?" if near else "")


def _near(key: str, candidates: Any, similar: float) -> str | None:
    same = (each for each in candidates if _plain(each) == _plain(key))
    return next(same, None) or next(iter(difflib.get_close_matches(key, list(candidates), 1, similar)), None)


def _plain(key: str) -> str:
    return "".join(c for c in key.lower() if c.isalnum())


_PROVIDERS = WorkerConfig.key_of("config_providers")


class OfflineWorkers:
    """Answers what `Validation` asks workers.

    A reference to a config provider is not looked up: whatever is wrong with a value that has one is left out.
    """

    def __init__(self, plugins: PluginRegistry, worker: WorkerConfig) -> None:
        self._plugins = plugins
        self._worker = worker

    def put(self, *parts: object, body: Mapping[str, str]) -> Any:
        """Return the report on a config. Raises RefusedError if its class is not installed."""
        try:
            report = validate_connector(body, plugins=self._plugins, worker=self._worker, asks_systems=False)
        except BadRequestError as error:
            raise RefusedError(400, str(error)) from None
        found = orjson.loads(to_json(report))
        for one in found["configs"]:
            if has_references({"": body.get(one["value"]["name"])}):
                one["value"]["errors"] = []
        return found

    def find(self, *parts: object) -> Any:
        """Return the installed connectors."""
        return [{"class": name} for name in self._plugins.names(PluginKind.CONNECTOR)]


def offline_workers(plugin_path: Sequence[Path], properties: Path | None) -> OfflineWorkers:
    """Return what validates with these directories, and with the settings of a worker's file, or those of `dev`.

    Raises ConfigError.
    """
    given = {BOOTSTRAP: "localhost:9092", **DEV} if properties is None else read_worker_file(properties)
    worker = WorkerConfig({key: value for key, value in given.items() if not key.startswith(_PROVIDERS)})
    plugins = plugins_of(worker, plugin_path, properties)
    for failure in plugins.failures() if plugin_path or worker.plugin_path else ():
        typer.echo(failure, err=True)
    return OfflineWorkers(plugins, worker)


def plugins_of(worker: WorkerConfig, plugin_path: Sequence[Path], properties: Path | None) -> PluginRegistry:
    """Return the plug-ins of these directories, else of the worker's file `properties`.

    From here on this process refuses to connectors the files that such a worker refuses. Raises ConfigError.
    """
    limit_files(worker)
    keep_from_connectors([] if properties is None else [str(properties)])
    directories = [str(one) for one in plugin_path] or worker.plugin_path or []
    return use_plugin_path(directories, worker.java_options, worker.plugin_disabled)
