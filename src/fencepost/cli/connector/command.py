"""Commands about connectors, with their options."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.api.errors import ConnectError
from fencepost.cli.on_worker import ConnectorName, ConnectorNames, Yes, confirm, connector_names, on_worker
from fencepost.cli.output import Form, JsonForm, Output, Printer, TextOrJson, aligned, counted
from fencepost.config import ConfigError
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect
    from fencepost.cli.connector.view import ConnectorView


def for_each(names: Iterable[str], done: str, act: Callable[[str], object]) -> None:
    """Do it with each; what fails is reported and does not keep others from being tried. Exits with 1 then.

    Args:
        done: A word for what was done, such as `paused`.
        act: Raises RefusedError, or another ConnectError; if nobody answers, the ConfigError ends the command.
    """
    is_failed = False
    for name in dict.fromkeys(names):
        try:
            act(name)
        except ConnectError as error:
            is_failed = True
            typer.echo(printable(f"{name}: not {done}: {error}"), err=True)
        else:
            typer.echo(printable(f"{name}: {done}"))
    if is_failed:
        raise typer.Exit(1)


@on_worker
def get(
    connect: "Connect",
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only connectors of these names; * stands for any characters, ? for one.",
            metavar="[PATTERN...]",
            autocompletion=connector_names,
        ),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only connectors that are in this state, or have a task that is; repeatable."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--type", help="Only connectors of this type: source, sink, stream or mirror.")
    ] = None,
    output: Form = Output.TABLE,
) -> None:
    """List the connectors of a cluster, with their states."""
    from fencepost.cli.connector.view import all_connectors

    wanted = {each.upper() for each in state or ()}
    found = [
        each
        for each in all_connectors(connect, patterns or ())
        if (not wanted or any(map(each.is_in, wanted))) and kind in (None, each.kind, each.type)
    ]
    headings = ("NAME", "TYPE", "STATE", "TASKS", "DELIVERY", "WORKER", "CLASS")
    Printer(output).listing([_as_data(each) for each in found], headings, [_row(each) for each in found])


def _row(view: "ConnectorView") -> tuple[str, ...]:
    states = view.task_states
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return view.name, view.kind, view.word, tasks or "none", view.delivery[0], view.worker_id, view.short_class


def _as_data(view: "ConnectorView") -> dict[str, Any]:
    return {
        "name": view.name,
        "type": view.type,
        "kind": view.kind,
        "state": view.word,
        "tasks": dict(sorted(view.task_states.items())),
        "delivery": view.delivery[0],
        "worker_id": view.worker_id,
        "class": view.config.get("connector.class"),
    }


@on_worker
def describe(
    connect: "Connect",
    name: ConnectorName,
    output: Form = Output.TABLE,
) -> None:
    """Show a connector: its config, without secrets, its tasks with their traces, topics, offsets and warnings."""
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
        "query": next((task["query"] for task in (view.figures or {}).get("tasks", ()) if task.get("query")), None),
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
    if found["query"]:
        yield from _section("Query", aligned_or_none([(key, compact(value)) for key, value in found["query"].items()]))
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


@on_worker
def status(
    connect: "Connect",
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Connectors. Default: all.", metavar="[CONNECTOR...]", autocompletion=connector_names),
    ] = None,
    output: Form = Output.TABLE,
) -> None:
    """Show the states of connectors and their tasks, a line each, with the reason if one has failed or tries again.

    Connectors that are not exactly once follow, each with the reason and the line to add.

    JSON and YAML have the statuses as Kafka Connect answers them, with complete traces.
    """
    from fencepost.cli.connector.view import all_connectors, existing_connector
    from fencepost.cli.masking import Masking
    from fencepost.telemetry.traces import reason_in

    views = [existing_connector(connect, name) for name in names] if names else all_connectors(connect)
    masking = Masking()
    for view in views:
        if any("trace" in each for each in (view.status["connector"], *view.tasks)):
            masking.learn(connect, view.config)
    printer = Printer(output)
    if not printer.is_table:
        printer.data([masked_status(view, masking) for view in views])
        return
    rows = []
    for view in views:
        words = [view.state, *view.task_words]
        for word, task in zip(words, (view.status["connector"], *view.tasks), strict=True):
            number = str(task["id"]) if "id" in task else ""
            reason = reason_in(masking.text(str(task.get("trace") or "")))
            rows.append((view.name, number, word, task.get("worker_id", ""), reason))
    printer.table(("CONNECTOR", "TASK", "STATE", "WORKER", "REASON"), rows)
    for line in _not_exactly_once(views):
        typer.echo(printable(line))


def _not_exactly_once(views: Sequence["ConnectorView"]) -> Iterator[str]:
    """Say which connectors are not exactly once, and why: those with the same reason in one line."""
    names: dict[str, list[str]] = {}
    for view in views:
        word, why = view.delivery
        if why:
            names.setdefault(f"{word}: {why}", []).append(view.name)
    if names:
        yield "\nNot exactly once, or not known to be:"
    for text, found in names.items():
        yield f"  {', '.join(found)}: {text}"


def masked_status(view: Any, masking: Any) -> dict[str, Any]:
    """Return the status of a connector as REST has it, without secrets."""

    def shown(one: Any) -> dict[str, Any]:
        return {key: masking.text(value) if key == "trace" and value else value for key, value in one.items()}

    return {
        **view.status,
        "connector": shown(view.status["connector"]),
        "tasks": [shown(task) for task in view.tasks],
    }


@on_worker
def pause(connect: "Connect", names: ConnectorNames) -> None:
    """Pause connectors and their tasks; they keep their resources."""
    for_each(names, "asked to pause", lambda name: connect.put("connectors", name, "pause"))


@on_worker
def resume(connect: "Connect", names: ConnectorNames) -> None:
    """Let paused or stopped connectors go on."""
    for_each(names, "asked to resume", lambda name: connect.put("connectors", name, "resume"))


@on_worker
def stop(connect: "Connect", names: ConnectorNames) -> None:
    """Stop connectors and remove their tasks; configs and offsets stay."""
    for_each(names, "asked to stop", lambda name: connect.put("connectors", name, "stop"))


_FAILED = "FAILED"


@on_worker
def restart(
    connect: "Connect",
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="The connectors' names. With --failed, the default is all that have failed.",
            metavar="[CONNECTOR...]",
            autocompletion=connector_names,
        ),
    ] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also restart the tasks.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Restart only what has failed: the connector, or some of its tasks.")
    ] = False,
) -> None:
    """Restart connectors, with their tasks, or only what has failed."""
    from fencepost.cli.connector.view import all_connectors

    if not names and not failed:
        raise ConfigError("Name the connectors to restart, or use --failed for all that have failed")
    chosen = names or [view.name for view in all_connectors(connect) if view.is_in(_FAILED)]
    if not chosen:
        typer.echo("Nothing has failed")
    parameters = {"includeTasks": str(tasks or failed).lower(), "onlyFailed": str(failed).lower()}
    for_each(chosen, "restarted", lambda name: connect.post("connectors", name, "restart", **parameters))


@on_worker
def delete(connect: "Connect", names: ConnectorNames, yes: Yes = False) -> None:
    """Delete connectors, after they were shown. Their offsets stay: a connector of the same name continues there."""
    from fencepost.cli.connector.view import existing_connector
    from fencepost.cluster.glance import remains_of

    for view in [existing_connector(connect, name) for name in dict.fromkeys(names)]:
        typer.echo(printable(f"{view.name}: a {view.kind}, {view.word}, {counted(len(view.tasks), 'task')}"), err=True)
        for line in remains_of(view.config):
            typer.echo(printable(f"  {line}"), err=True)
    if not yes:
        confirm(connect, f"delete {'it' if len(set(names)) == 1 else 'them'}?")
    for_each(names, "deleted", lambda name: connect.delete("connectors", name))


_Properties = Annotated[
    Path | None,
    typer.Option(help="A file with the settings of Kafka clients, such as the worker's own.", metavar="FILE"),
]
_Bootstrap = Annotated[
    str | None, typer.Option(help="Kafka's bootstrap servers. Default: the connector's, the file's, or the worker's.")
]


@on_worker
def audit(
    connect: "Connect",
    connector: ConnectorName,
    properties: _Properties = None,
    source_properties: Annotated[
        Path | None,
        typer.Option(
            help="A file with settings of the clients of a mirror's source, or of a database, which replace those of "
            "the config.",
            metavar="FILE",
        ),
    ] = None,
    bootstrap: _Bootstrap = None,
    ledger: Annotated[
        str | None, typer.Option(help="The ledger's topic. Default: the config's; with it, no worker is asked.")
    ] = None,
    source_database: Annotated[
        bool,
        typer.Option("--source-database", help="Compare the topics of a PostgresSource with the tables themselves."),
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            help="A file that keeps what was read of the topics until an audit of a database has ended: one that was "
            "stopped then goes on.",
            metavar="FILE",
        ),
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Compare only this topic. Repeatable.")] = None,
    wait: Annotated[
        float, typer.Option(help="For how many seconds to wait for open transactions, and for the connector.", min=0)
    ] = 10.0,
    output: Form = Output.TABLE,
) -> None:
    """Compare both ends of a connector, and name the first offset that differs.

    Of a source: the topics that it has written to, and its ledger. Of a FilesSink: the topics that it reads, and the
    files that it has written, which must be on this machine. Of a PostgresSink: the topics that it reads, and the
    tables. Of a mirror: the topics of both clusters. With --source-database: a database's tables and topics. Exit
    codes: 0 both are the same, 1 something differs, 2 not everything could be compared.
    """
    from fencepost.api.errors import ConnectError
    from fencepost.cli.connector.audit import INCOMPLETE, Database, Given, Progress, audit_of, code_of, print_report
    from fencepost.config import ConfigError

    try:
        given = Given(properties, source_properties, bootstrap, (lambda: None) if ledger else connect.brokers)
        database = Database(source_database, state)
        with closing(audit_of(connect, connector, given, ledger, wait_s=wait, database=database)) as made:
            report = made.run(topic or (), Progress())
    except ConfigError:
        raise
    except ConnectError as error:
        typer.echo(printable(str(error)), err=True)
        raise typer.Exit(INCOMPLETE) from None
    print_report(report, output)
    raise typer.Exit(code_of(report))


@on_worker
def dead_letters(
    connect: "Connect",
    connector: ConnectorName,
    properties: _Properties = None,
    bootstrap: _Bootstrap = None,
    topic: Annotated[str | None, typer.Option(help="The dead letter topic. Default: the config's.")] = None,
    limit: Annotated[int, typer.Option(help="How many dead letters to show; 0: all.", min=0)] = 20,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Show the oldest dead letters instead of the newest.")
    ] = False,
    output: JsonForm = TextOrJson.TEXT,
    resend: Annotated[
        bool,
        typer.Option(
            "--resend",
            help="Resend a sink's dead letters that were not resent yet, as they were read: to its "
            "errors.deadletterqueue.resend.topic.name, which only the sink reads; without that setting, to their "
            "original topics and partitions, where every consumer reads them again.",
        ),
    ] = False,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            help="With --resend: do not send this dead letter (as in orders-dead-0@4), or those that came from this "
            "topic, now or later. Repeatable.",
            metavar="LETTER|TOPIC",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before sending.")] = False,
) -> None:
    """Show the records that a connector could not process, or resend those of a sink, each once.

    A worker shows the newest, with the beginnings of long ones. All else, and --properties or --bootstrap, reads Kafka.
    """
    from fencepost.cli.connector.dead_letters import Where, send_again, show

    where = Where(connect, properties, bootstrap)
    if resend:
        send_again(connector, where, topic=topic, is_confirmed=yes, skipped=tuple(skip or ()))
    else:
        show(
            connector,
            where,
            topic=topic,
            limit=limit,
            is_from_beginning=from_beginning,
            as_json=output is TextOrJson.JSON,
        )


offsets_app = typer.Typer(no_args_is_help=True, help="Show, move and reset the offsets of connectors.")

_KeepStopped = Annotated[bool, typer.Option("--keep-stopped", help="Do not resume the connector afterwards.")]
_Preview = Annotated[bool, typer.Option("--preview", help="Show what would change, and change nothing.")]


@offsets_app.command()
@on_worker
def show(
    connect: "Connect",
    connector: ConnectorName,
    output: Form = Output.TABLE,
) -> None:
    """Show the offset of every partition. JSON has the form that `move --file` takes."""
    from fencepost.cli.connector.view import existing_connector

    existing_connector(connect, connector)
    found = connect.get("connectors", connector, "offsets")
    rows = [(json.dumps(one["partition"]), json.dumps(one["offset"])) for one in found["offsets"]]
    Printer(output).listing(found, ("PARTITION", "OFFSET"), rows)


@offsets_app.command()
@on_worker
def move(
    connect: "Connect",
    connector: ConnectorName,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            help='TOPIC:PARTITION=OFFSET for a sink (* for all partitions; "none" deletes the offset), or JSON, '
            '{"partition": {...}, "offset": {...}}, for a source.',
            metavar="[CHANGE...]",
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="A file of JSON with the changes, as `show --output json` prints offsets.")
    ] = None,
    preview: _Preview = False,
    keep_stopped: _KeepStopped = False,
    yes: Yes = False,
) -> None:
    """Change offsets, after the changes were shown. The connector is stopped for that, and resumed afterwards."""
    from fencepost.cli.connector.offsets import OffsetMove, Options, parse_changes

    moving = OffsetMove(connect, connector, Options(yes, keep_stopped, preview))
    moving.alter(parse_changes(changes or (), file, moving.present))


@offsets_app.command()
@on_worker
def reset(
    connect: "Connect",
    connector: ConnectorName,
    preview: _Preview = False,
    keep_stopped: _KeepStopped = False,
    yes: Yes = False,
) -> None:
    """Delete all offsets, after they were shown. The connector begins anew, after it was stopped for that."""
    from fencepost.cli.connector.offsets import OffsetMove, Options

    OffsetMove(connect, connector, Options(yes, keep_stopped, preview)).reset()
