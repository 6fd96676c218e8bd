"""`fencepost describe`: all that workers know about a connector, without its secrets."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from fencepost.cli.columns import aligned
from fencepost.cli.completion import ConnectorName
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Form, Output, Printer
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def describe(
    connect: "Connect",
    name: ConnectorName,
    output: Form = Output.TABLE,
) -> None:
    """Show a connector: its config, without secrets, its tasks with their traces, topics, offsets and warnings."""
    from fencepost.cli.connector.status import masked_status
    from fencepost.cli.connector.view import existing_connector
    from fencepost.cli.masking import Masking

    view, masking = existing_connector(connect, name), Masking()
    masking.learn(connect, view.config)
    found = {
        "name": name,
        "type": view.type,
        "kind": view.kind,
        "state": view.word,
        "task_states": view.task_words,
        "config": masking.config(view.config),
        "status": masked_status(view, masking),
        **dict(zip(("delivery", "not_exactly_once_because"), view.delivery, strict=True)),
        "topics": _topics(connect, name),
        **_offsets(connect, name),
        "warnings": [masking.text(text) for text in (view.figures or {}).get("warnings") or ()],
    }
    printer = Printer(output)
    if not printer.is_table:
        printer.data(found)
        return
    for line in _text(found):
        typer.echo(printable(line))


def _topics(connect: "Connect", name: str) -> list[str]:
    """Return the topics that it has used; none if the workers do not track them."""
    from fencepost.cli.connect import RefusedError

    try:
        found = connect.find("connectors", name, "topics") or {}
    except RefusedError:
        return []
    return sorted(found.get(name, {}).get("topics", []))


def _offsets(connect: "Connect", name: str) -> dict[str, Any]:
    from fencepost.cli.connect import RefusedError

    try:
        return {"offsets": (connect.find("connectors", name, "offsets") or {}).get("offsets", [])}
    except RefusedError as error:
        return {"offsets": None, "offsets_unknown_because": str(error)}


def _text(found: Mapping[str, Any]) -> Iterator[str]:
    status, why = found["status"], found["not_exactly_once_because"]
    yield f"{found['name']}: a {found['kind']}, {found['state']}, {found['delivery']}{f': {why}' if why else ''}"
    yield from _section("Config", aligned_or_none(sorted(found["config"].items())))
    words = zip(status["tasks"], found["task_states"], strict=True)
    tasks = [(str(task["id"]), word, task.get("worker_id", "")) for task, word in words]
    yield from _section("Tasks", aligned_or_none(tasks))
    for one in (status["connector"], *status["tasks"]):
        if one.get("trace"):
            what = f"Trace of task {one['id']}" if "id" in one else "Trace of the connector"
            yield from _section(what, str(one["trace"]).strip().splitlines())
    yield from _section("Topics", found["topics"])
    if found["offsets"] is None:
        yield from _section("Offsets", [f"not known: {found['offsets_unknown_because']}"])
    else:
        rows = [(compact(one["partition"]), compact(one["offset"])) for one in found["offsets"]]
        yield from _section("Offsets", aligned_or_none(rows))
    if found["warnings"]:
        yield from _section("Warnings", found["warnings"])


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    yield ""
    yield f"{heading}:"
    for line in lines or ["none"]:
        yield f"  {line}"


def aligned_or_none(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines of aligned columns."""
    return list(aligned(rows)) if rows else []


def compact(value: Any) -> str:
    """Return JSON in one line."""
    return json.dumps(value, ensure_ascii=False)
