"""`fencepost offsets`: changes as users write them, and how they are carried out."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import typer

from fencepost.api.errors import ConnectError
from fencepost.cli.connect import Connect, RefusedError
from fencepost.cli.connector.view import LOOK_EVERY_S, existing_connector
from fencepost.cli.on_worker import confirm
from fencepost.cli.output import Output, Printer
from fencepost.config import ConfigError
from fencepost.telemetry.plain_line import printable

_SINK = re.compile(r"^(?P<topic>.+):(?P<partition>\d+|\*)=(?P<offset>\d+|none)$")
_FORMS = 'expected TOPIC:PARTITION=OFFSET for a sink, or {"partition": {…}, "offset": {…}}'
_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


@dataclass(frozen=True)
class OffsetChange:
    """The new offset of one partition; None: it is deleted."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None

    @property
    def key(self) -> str:
        """Return a text that is equal for equal partitions."""
        return json.dumps(self.partition, sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """Return what a request has."""
        return {"partition": self.partition, "offset": self.offset}


def parse_changes(texts: Sequence[str], file: str | None, present: Sequence[OffsetChange]) -> list[OffsetChange]:
    """Return what is to change. Raises ConfigError, with all faults.

    Args:
        texts: `orders:0=1500`, `orders:*=0` for all partitions that have offsets, or JSON.
        file: A file of JSON, as `offsets show --output json` prints it.
        present: The offsets that there are.
    """
    faults: list[str] = []
    found: list[OffsetChange] = []
    for text in texts:
        try:
            found.extend(_parsed(text, present))
        except ValueError as error:
            faults.append(f"{text}: {error}")
    if file is not None:
        try:
            found.extend(_of_json(Path(file).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            faults.append(f"{file}: {error}")
    keys = [each.key for each in found]
    faults.extend(f"{key}: is given twice" for key in sorted({key for key in keys if keys.count(key) > 1}))
    if faults:
        raise ConfigError(faults)
    if not found:
        raise ConfigError(f"Say which offsets: {_FORMS}, or --file")
    return found


def of_answer(answer: Any) -> list[OffsetChange]:
    """Return the offsets that a worker has answered."""
    return [OffsetChange(one["partition"], one["offset"]) for one in answer["offsets"]]


def _parsed(text: str, present: Sequence[OffsetChange]) -> list[OffsetChange]:
    if text.lstrip().startswith("{"):
        return _of_json(text)
    found = _SINK.match(text)
    if found is None:
        raise ValueError(_FORMS)
    topic, offset = found["topic"], None if found["offset"] == "none" else {_OFFSET: int(found["offset"])}
    if found["partition"] != "*":
        return [OffsetChange({_TOPIC: topic, _PARTITION: int(found["partition"])}, offset)]
    partitions = [each.partition for each in present if each.partition.get(_TOPIC) == topic]
    if not partitions:
        raise ValueError(f"no partition of {topic} has an offset: name the partitions")
    return [OffsetChange(each, offset) for each in partitions]


def _of_json(text: str) -> list[OffsetChange]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    changes = found.get("offsets", [found]) if isinstance(found, dict) else found
    if not isinstance(changes, list) or not changes:
        raise ValueError('expected {"offsets": […]}')
    for each in changes:
        is_one = isinstance(each, dict) and isinstance(each.get("partition"), dict) and "offset" in each
        if not is_one or not isinstance(each["offset"], dict | None):
            raise ValueError(f'{json.dumps(each)[:80]}: expected {{"partition": {{…}}, "offset": {{…}} or null}}')
    return [OffsetChange(each["partition"], each["offset"]) for each in changes]


_STOPPED, _PAUSED, _RUNNING = "STOPPED", "PAUSED", "RUNNING"
_BACK = {_PAUSED: "pause"}
_RETRIED = "safely retried"  # what Kafka Connect says while tasks of a sink still leave their group
_UNCHANGED = "No offset was changed."
_UNKNOWN = "It is not known whether offsets were changed: see `fencepost offsets show {}`."
_STOP_S = 120.0


@dataclass(frozen=True)
class Options:
    """The user's options. `keeps_stopped`: the connector is not resumed afterwards."""

    is_confirmed: bool = False
    keeps_stopped: bool = False
    is_dry: bool = False


class OffsetMove:
    """A change of one connector's offsets."""

    def __init__(
        self, connect: Connect, name: str, options: Options, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._connect = connect
        self._options = options
        self._pause = pause
        self._view = existing_connector(connect, name)
        self.present = self._read()

    def alter(self, changes: Sequence[OffsetChange]) -> None:
        """Change some. Raises RefusedError, or ConfigError."""
        body = {"offsets": [each.to_json() for each in changes]}
        self._carry_out(changes, lambda: self._connect.patch(*self._path, body=body))

    def reset(self) -> None:
        """Delete all. Raises RefusedError, or ConfigError."""
        changes = [OffsetChange(each.partition, None) for each in self.present]
        self._carry_out(changes, lambda: self._connect.delete(*self._path))

    @property
    def _path(self) -> tuple[str, str, str]:
        return "connectors", self._view.name, "offsets"

    def _carry_out(self, changes: Sequence[OffsetChange], act: Callable[[], Any]) -> None:
        show_changes(self.present, changes)
        if self._options.is_dry:
            return
        self._announce()
        if not self._options.is_confirmed:
            self._ask()
        is_sent = False
        try:
            self._stop()
            before = self._read()
            is_sent = True
            answer = self._tried(act)
        except (RefusedError, ConfigError, ConnectError) as error:
            is_known = isinstance(error, RefusedError) and error.status < httpx.codes.INTERNAL_SERVER_ERROR
            typer.echo(_UNCHANGED if is_known or not is_sent else _UNKNOWN.format(self._view.name), err=True)
            raise
        finally:
            self._restore()
        if [one for one in before if one not in self.present]:
            typer.echo("When it was stopped, its offsets were:", err=True)
            show_changes(before, changes)
        typer.echo(printable(str((answer or {}).get("message", "The offsets were changed"))))

    def _announce(self) -> None:
        name, state = self._view.name, self._view.state
        if state == _STOPPED:
            text = f"{name} is {state}, and stays so."
        else:
            then = "stays stopped" if self._options.keeps_stopped else f"is {state} again afterwards"
            text = f"{name} is {state}: it is stopped for the change, and {then}."
        typer.echo(printable(text), err=True)

    def _ask(self) -> None:
        """Ask the user. Somebody may pause the connector, or resume it, before the answer: so it is afterwards."""
        confirm(self._connect, "change them?")
        before, now = self._view, existing_connector(self._connect, self._view.name)
        # Other states do not say whether it is to run: a paused one is UNASSIGNED while workers change.
        if now.state != before.state and now.state in (_STOPPED, _PAUSED, _RUNNING):
            self._view = now
            self._announce()

    def _read(self) -> list[OffsetChange]:
        return of_answer(self._connect.get(*self._path))

    def _stop(self) -> None:
        """Stop it, unless it is stopped, and wait until its tasks are gone."""
        if self._view.state == _STOPPED:
            return
        self._connect.put("connectors", self._view.name, "stop")
        ending = time.monotonic() + _STOP_S
        while True:
            status = self._connect.get("connectors", self._view.name, "status")
            if status["connector"]["state"] == _STOPPED and not status["tasks"]:
                return
            if time.monotonic() > ending:
                raise ConnectError(f"{self._view.name} did not stop within {_STOP_S:g} s; see `fencepost status`")
            self._pause(LOOK_EVERY_S)

    def _tried(self, act: Callable[[], Any]) -> Any:
        """Send the request. It is repeated while tasks that end are still in a sink's group."""
        ending = time.monotonic() + _STOP_S
        while True:
            try:
                return act()
            except RefusedError as error:
                if _RETRIED not in str(error) or time.monotonic() > ending:
                    raise
            self._pause(LOOK_EVERY_S)

    def _restore(self) -> None:
        name, state = self._view.name, self._view.state
        if state == _STOPPED or self._options.keeps_stopped:
            return
        how = _BACK.get(state, "resume")
        try:
            self._connect.put("connectors", name, how)
        except (RefusedError, ConfigError, ConnectError):
            typer.echo(printable(f"{name} may be STOPPED still: run `fencepost {how} {name}`."), err=True)
            raise


def show_changes(present: Sequence[OffsetChange], changes: Sequence[OffsetChange]) -> None:
    """Print a table of what changes."""
    before = {each.key: each.offset for each in present}
    rows = [(json.dumps(each.partition), _shown(before.get(each.key)), _shown(each.offset)) for each in changes]
    Printer(Output.TABLE).table(("PARTITION", "BEFORE", "AFTER"), rows)


def _shown(offset: Any) -> str:
    return "none" if offset is None else json.dumps(offset)
