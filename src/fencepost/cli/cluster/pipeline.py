"""`fencepost dev --pipeline FILE`: its connectors, a Postgres for them, and what is printed once they run."""

import contextlib
import re
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.api.errors import ConnectError
from fencepost.cli.connect import Connect, access
from fencepost.cli.connector_file import Fault, FilesContent, WantedConnector, read_files
from fencepost.config import ConfigError
from fencepost.embedded.postgres import EmbeddedPostgres
from fencepost.telemetry.plain_line import announce, printable
from fencepost.telemetry.traces import reason_in
from fencepost.worker.declaration import Declared

_REFERENCE = re.compile(r"\$\{dev:([^}]*)\}")
_DIRECTORY, _PORT = "directory", "postgres.port"
_KEYS = ("port", "sql")
_LOOK_S = 1.0
_MOST_SHOWN = 160


@dataclass(frozen=True)
class Pipeline:
    """The content of a pipeline's file.

    Attributes:
        postgres: A server that is not started yet; None: the file asks for none.
    """

    connectors: list[WantedConnector] = field(repr=False)
    postgres: EmbeddedPostgres | None

    def begin(self, directory: Path, url: str) -> Declared:
        """Say how to reach the started Postgres, and return the connectors for the worker at `url`.

        Raises ConfigError for a reference to what there is not.

        Args:
            directory: It lives as long as Kafka's data do.
        """
        if self.postgres is not None:
            announce("Postgres", self.postgres.psql)
        declared = self._declared(directory)
        FirstResults(url, declared.connectors).start()
        return declared

    def _declared(self, directory: Path) -> Declared:
        values = {_DIRECTORY: str(directory)} | ({_PORT: str(self.postgres.port)} if self.postgres else {})
        faults: list[Fault] = []
        configs = {
            each.name: {key: _replaced(each, key, value, values, faults) for key, value in each.config.items()}
            for each in self.connectors
        }
        _refuse(faults)
        return Declared(configs)


def read_pipeline(path: Path, directory: Path | None) -> Pipeline:
    """Read a pipeline's file. Raises ConfigError with all that is wrong in it.

    Args:
        directory: Where data are kept; None: they are deleted at the end.
    """
    content = read_files([str(path)])
    stateful = (each for each in content.wanted if each.creation or each.state not in (None, "RUNNING"))
    faults = [*content.faults, *(each.fault("", "a pipeline gives no states and offsets") for each in stateful)]
    postgres = _postgres(path, content, directory, faults)
    if not content.wanted and not faults:
        faults.append(Fault(str(path), "", "", "there is no connector"))
    _refuse(faults)
    return Pipeline(content.wanted, postgres)


def _postgres(
    path: Path, content: FilesContent, directory: Path | None, faults: list[Fault]
) -> EmbeddedPostgres | None:
    given = content.postgres.get(str(path))
    if given is None:
        return None

    def fault(key: str, text: str) -> None:
        faults.append(Fault(str(path), "", ".".join(filter(None, ("postgres", key))), text))

    if not isinstance(given, Mapping):
        fault("", 'expected {"port": …, "sql": …}, or {}')
        return None
    for key in given:
        if key not in _KEYS:
            fault(str(key), f"expected {' or '.join(_KEYS)}")
    port, script = str(given.get("port", 0)), given.get("sql")
    if not port.isdecimal() or int(port) > 65535:
        fault("port", f"{port}: expected a port, or 0 for any free one")
    found = path.parent / str(script) if script is not None else None
    if found is not None and not found.is_file():
        fault("sql", f"there is no file {found}")
    return None if faults else EmbeddedPostgres(int(port), directory and directory / "postgres", found)


def _replaced(connector: WantedConnector, key: str, value: str, values: Mapping[str, str], faults: list[Fault]) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1] not in values:
            known = ", ".join(f"${{dev:{name}}}" for name in values)
            missing = "; the file asks for no postgres" if found[1] == _PORT else ""
            faults.append(connector.fault(key, f"{found[0]} is unknown{missing}: there is {known}"))
        return values.get(found[1], "")

    return _REFERENCE.sub(one, value)


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise ConfigError([str(each) for each in faults])


class FirstResults:
    """Prints, in a thread, when each connector runs or fails, and the first record of each topic that they use."""

    def __init__(self, url: str, names: Collection[str]) -> None:
        """`url`: the worker's REST API."""
        self._url = url
        self._waiting = set(names)
        self._said: set[tuple[str, str]] = set()
        self._topics: set[str] = set()

    def start(self) -> None:
        threading.Thread(target=self._run, name="first-results", daemon=True).start()

    def _run(self) -> None:
        """Look until each connector has a topic with a record; the worker may be starting, or ending."""
        with Connect(access(self._url)) as connect:
            while self._waiting:
                time.sleep(_LOOK_S)
                for name in sorted(self._waiting):
                    with contextlib.suppress(ConfigError, ConnectError):
                        self._look(connect, name)

    def _look(self, connect: Connect, name: str) -> None:
        status = connect.find("connectors", name, "status")
        if not status or not status["tasks"]:
            return
        parts = [status["connector"], *status["tasks"]]
        failed = [str(part.get("trace", "")) for part in parts if part["state"] == "FAILED"]
        if failed:
            self._say("Failed", name, reason_in(failed[0]))
        elif all(part["state"] == "RUNNING" for part in parts):
            self._say("Running", name)
        for topic in connect.get("connectors", name, "topics")[name]["topics"]:
            if topic not in self._topics:
                page = connect.get("topics", topic, "records", **{"from": "earliest", "limit": 1})
                if not page["records"]:
                    continue
                self._say("Topic", f"{topic}:", _beginning(page["records"][0]["value"]))
                self._topics.add(topic)
            self._waiting.discard(name)

    def _say(self, what: str, name: str, remark: str = "") -> None:
        if (what, name) not in self._said:
            self._said.add((what, name))
            announce(what, printable(name), printable(remark))


def _beginning(value: Mapping[str, Any] | None) -> str:
    text = "(no value)" if value is None else str(value["text"])
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
