"""`fencepost apply` and `export`: from files to a cluster, and back.

`apply` reads, compares, validates, shows, asks, carries out, waits; in this order. `export` prints or writes configs in
the form that `apply` takes.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer

from fencepost.cli.connect import Connect
from fencepost.cli.connector.view import ConnectorView, all_connectors, await_running
from fencepost.cli.connector_file import Fault, WantedConnector, read_files
from fencepost.cli.file.plan import Action, KeyChange, Plan, Result, Step, carry_out, plan
from fencepost.cli.file.validation import Validation
from fencepost.cli.masking import Masking
from fencepost.cli.on_worker import confirm
from fencepost.cli.output import Output, Printer, counted, waiting
from fencepost.cluster.glance import AT_REST
from fencepost.config import ConfigError
from fencepost.secret.redaction import HIDDEN
from fencepost.telemetry.plain_line import printable

DONE, FAILED, WRONG, DIFFERENT = 0, 1, 2, 3
_SIGNS = {Action.CREATE: "+", Action.CHANGE: "~", Action.DELETE: "-", Action.NONE: " "}


@dataclass(frozen=True)
class Options:
    """The user's options.

    Attributes:
        is_dry: Whether differences are shown, and nothing is changed.
        only: The one connector that the files may have; None: any.
        owned: Patterns of the names of connectors that are deleted if no file has them.
        wait_s: How long to wait until everything runs; None: not at all.
    """

    is_dry: bool = False
    sends_secrets: bool = False
    only: str | None = None
    owned: Sequence[str] = ()
    wait_s: float | None = None
    output: Output = Output.TABLE
    is_confirmed: bool = False


class Applying:
    """One run of the command on one cluster."""

    def __init__(self, connect: Connect, options: Options) -> None:
        self._connect = connect
        self._options = options
        self._masking = Masking()
        self._printer = Printer(options.output)

    def run(self, files: Sequence[str]) -> int:
        """Return the exit code."""
        content = read_files(files)
        own = [f"{file}: postgres, which only `fencepost dev --pipeline` starts" for file in content.postgres]
        for text in (*content.skipped, *own):
            typer.echo(f"skipped: {printable(text)}", err=True)
        made, invalid = self._planned(content.wanted) if content.wanted else (Plan(()), [])
        faults = [*content.faults, *made.faults, *invalid]
        only = self._options.only
        faults += [
            each.fault("name", f"it must stay {only}") for each in content.wanted if only not in (None, each.name)
        ]
        if not content.wanted and not faults:
            faults = [Fault(", ".join(files), "", "", "there is no connector")]
        if faults:
            self._refuse(faults)
            return WRONG
        self._mention_uncompared(made)
        if self._options.is_dry:
            self._show(made)
            return DONE if made.is_empty else DIFFERENT
        self._ask_before_deleting(made)
        return self._carried_out(made)

    def _planned(self, wanted: Sequence[WantedConnector]) -> tuple[Plan, Sequence[Fault]]:
        """Compare twice: validation says which keys of a class are passwords."""
        present = all_connectors(self._connect)
        first = self._plan(wanted, present)
        changed = {step.name: step.config for step in first.steps if step.is_config_changed}
        merged = [replace(each, config=changed[each.name]) for each in wanted if each.name in changed]
        verdict = Validation(self._connect, self._masking).validate(merged, first.faults)
        for warning in verdict.warnings:
            typer.echo(f"warning: {printable(str(warning))}", err=True)
        return self._plan(wanted, present), verdict.faults

    def _plan(self, wanted: Sequence[WantedConnector], present: Sequence[ConnectorView]) -> Plan:
        options = self._options
        return plan(wanted, present, self._masking, sends_secrets=options.sends_secrets, owned=options.owned)

    def _refuse(self, faults: Sequence[Fault]) -> None:
        if not self._printer.is_table:
            self._printer.data({"faults": [vars(fault) for fault in faults]})
        for fault in faults:
            typer.echo(printable(str(fault.masked(self._masking.text))), err=True)
        typer.echo(f"Nothing was changed: {counted(len(faults), 'fault')}", err=True)

    def _mention_uncompared(self, made: Plan) -> None:
        for step in made.of(Action.NONE):
            if step.uncompared:
                typer.echo(
                    f"note: {printable(step.name)}: {', '.join(map(printable, step.uncompared))} cannot be compared, "
                    "because the worker hides it; --send-secrets sends it",
                    err=True,
                )

    def _show(self, made: Plan) -> None:
        if not self._printer.is_table:
            self._printer.data({"connectors": [step.to_json() for step in made.steps]})
            return
        for step in made.of(Action.CREATE, Action.CHANGE, Action.DELETE):
            typer.echo(f"{_SIGNS[step.action]} {printable(step.name)}{_remark(step)}")
            for change in step.changes:
                for line in _lines(change):
                    typer.echo(f"    {printable(line)}")
        typer.echo(f"To do: {_counted(made)}")

    def _ask_before_deleting(self, made: Plan) -> None:
        gone = made.of(Action.DELETE)
        if not gone:
            return
        typer.echo("In no file:", err=True)
        for step in gone:
            typer.echo(f"- {printable(step.name)}", err=True)
        if not self._options.is_confirmed:
            confirm(self._connect, f"delete {'it' if len(gone) == 1 else 'them'}, after all other changes?")

    def _carried_out(self, made: Plan) -> int:
        results: list[Result] = []
        for result in carry_out(self._connect, made, self._masking):
            results.append(result)
            if self._printer.is_table and (result.error or result.step.action is not Action.NONE):
                self._say(result)
        failed = [result for result in results if result.error]
        lagging = self._await(results)
        if self._printer.is_table:
            unchanged = len(made.of(Action.NONE))
            done = len(results) - unchanged - len(failed)
            typer.echo(f"{done} done, {unchanged} unchanged" + (f", {len(failed)} failed" if failed else ""))
        else:
            waiting = {"not_running": lagging} if self._options.wait_s is not None else {}
            self._printer.data({"connectors": [result.to_json() for result in results], **waiting})
        for name, reason in lagging.items():
            typer.echo(printable(f"{name} does not run: {reason}"), err=True)
        return FAILED if failed or lagging else DONE

    def _say(self, result: Result) -> None:
        if result.error:
            text = f"failed to {result.step.action}: {result.error}"
            typer.echo(printable(f"{result.step.name}: {text}"), err=True)
        else:
            typer.echo(printable(f"{result.step.name}: {result.text}{_remark(result.step)}"))

    def _await(self, results: Sequence[Result]) -> dict[str, str]:
        """Return what does not run in time, or has failed, with reasons."""
        if self._options.wait_s is None:
            return {}
        steps = [result.step for result in results if not result.error and result.step.action is not Action.DELETE]
        wanted = {step.name: step.state for step in steps}
        with waiting("Waiting until all run"):
            return await_running(self._connect, wanted, self._options.wait_s, self._masking)


def _remark(step: Step) -> str:
    if step.action is not Action.CHANGE:
        return ""
    parts = [change.key for change in step.changes]
    return f" ({', '.join([*parts, *([f'now {step.state}'] if step.state else [])])})"


def _lines(change: KeyChange) -> list[str]:
    if change.before is None:
        return [f"+ {change.key}={change.after}"]
    if change.after is None:
        return [f"- {change.key}={change.before}"]
    return [f"- {change.key}={change.before}", f"+ {change.key}={change.after}"]


def _counted(made: Plan) -> str:
    counts = [f"{len(made.of(action))} to {action}" for action in (Action.CREATE, Action.CHANGE, Action.DELETE)]
    return ", ".join((*counts, f"{len(made.of(Action.NONE))} unchanged"))


def export_connectors(
    connect: Connect, patterns: Sequence[str], directory: Path | None, *, with_secrets: bool = False
) -> None:
    """Print the connectors whose names match, or write files. Raises ConfigError, or as `Connect` does."""
    if with_secrets and directory is None:
        raise ConfigError("--with-secrets needs --dir: secrets are written to files that only you can read")
    views, masking = all_connectors(connect, patterns), Masking()
    if patterns and not views:
        raise ConfigError(f"{connect.access.named}: no connector is named {', '.join(patterns)}")
    documents: list[dict[str, Any]] = []
    unknown: list[str] = []
    for view in views:
        masking.learn(connect, view.config)
        document, keys = document_of(view, masking, with_secrets=with_secrets)
        documents.append(document)
        unknown.extend(f"{view.name}: {key}" for key in keys)
    if directory is None:
        typer.echo(text_of(documents[0] if len(documents) == 1 else documents), nl=False)
    else:
        for document in documents:
            _write(directory / f"{_file_name(document['name'])}.json", text_of(document))
        typer.echo(f"Wrote {counted(len(documents), 'file')} to {directory}", err=True)
    if unknown:
        typer.echo("These secrets are not exported; for another cluster, fill them in first:", err=True)
        for text in unknown:
            typer.echo(printable(f"  {text}"), err=True)


def document_of(
    view: ConnectorView, masking: Masking, *, with_secrets: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return a connector as `apply` takes it, and the keys of the secrets that it lacks."""
    config = {key: value for key, value in view.config.items() if key != "name"}
    secret = masking.secret_keys(config)
    missing = sorted(key for key, value in config.items() if HIDDEN in value or (key in secret and not with_secrets))
    shown = {key: f"${{fill:{key}}}" if key in missing else value for key, value in sorted(config.items())}
    resting = {"initial_state": view.state} if view.state in AT_REST else {}
    return {"name": view.name, "config": shown, **resting}, missing


def text_of(document: Any) -> str:
    """Return documents as a file has them."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _file_name(name: str) -> str:
    """Return a name that no directory is part of, and that `apply` does not take for a hidden file."""
    quoted = quote(name, safe=" +=@,()")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
