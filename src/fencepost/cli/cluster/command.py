"""Commands about a cluster, its Kafka and its workers, with their options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fencepost.cli.on_worker import LATEST, MOST_RECORDS, connector_names, on_worker
from fencepost.cli.output import AlsoJson, Form, JsonForm, Output, Printer, TextOrJson, print_json

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


def worker(
    properties: Annotated[Path, typer.Argument(help="Kafka Connect's distributed worker file.", metavar="FILE")],
) -> None:
    """Run a worker: REST, leader, connectors, and the Spark driver."""
    from fencepost.cli.cluster.worker import run_worker

    raise typer.Exit(run_worker(properties))


def dev(
    port: Annotated[int, typer.Option(help="Port of the REST API.")] = 8083,
    kafka_port: Annotated[int, typer.Option(help="Port of the embedded Kafka; 0: any free one.")] = 9092,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep Kafka's data here; without it they are deleted at the end.")
    ] = None,
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option(
            "--plugin-path",
            metavar="DIR",
            help="A directory with plug-ins; repeatable. That of `plugin install` is searched, too.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="A worker setting; repeatable.")
    ] = None,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Create the connectors of a file, as `apply` takes it; it may ask for a Postgres of its own.",
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start the worker again when a file of a plug-in changes; Kafka stays.")
    ] = False,
    at: Annotated[str | None, typer.Option("--at", hidden=True, help="The Kafka of the process that reloads.")] = None,
) -> None:
    """Run a worker with a Kafka of its own and exactly-once on; needs no configuration."""
    from fencepost.cli.cluster.worker import run_dev

    if reload and pipeline is not None:
        raise typer.BadParameter("it cannot be used with --pipeline", param_hint="--reload")
    raise typer.Exit(
        run_dev(
            port, kafka_port, directory, setting or [], plugin_path or [], pipeline, is_reloading=reload, brokers=at
        )
    )


_FILE = typer.Argument(help="A MirrorMaker 2 file.", metavar="FILE")


class RunUnlessNamed(TyperGroup):
    """Treats `mirror FILE` as `mirror run FILE`."""

    unless_named = "run"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if is_named else [self.unless_named, *args])


mirror_app = typer.Typer(
    cls=RunUnlessNamed, no_args_is_help=True, help="Mirror topics of one Kafka cluster to another."
)


@mirror_app.command()
def run(
    file: Annotated[Path, _FILE],
    flow: Annotated[
        list[str] | None, typer.Option(metavar="A->B", help="Run only this flow of the file; repeatable.")
    ] = None,
    clusters: Annotated[
        list[str] | None, typer.Option(metavar="ALIAS", help="Run only the flows to this cluster; repeatable.")
    ] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the flows of a MirrorMaker 2 file (`fencepost mirror FILE` does the same).

    Each flow has a worker and a process of its own. Processes that are started with the same file share the work.
    """
    from fencepost.cli.cluster.mirror_run import run_mirror

    raise typer.Exit(run_mirror(file, flow or [], clusters or [], parent))


@mirror_app.command()
def migrate(
    file: Annotated[Path, _FILE],
    flow: Annotated[str | None, typer.Option(metavar="A->B", help="The flow. Default: the only enabled one.")] = None,
    to: Annotated[str, typer.Option(help="The new type of the flow: sink or source.")] = "sink",
    connector: Annotated[
        str | None, typer.Option(help="The name of the connector that has mirrored so far, in a Connect cluster.")
    ] = None,
    into: Annotated[str | None, typer.Option(help="The name of the connector that continues.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Move the positions of a flow from one type of connector to the other, while neither runs.

    They are shown first. This also works for MirrorMaker 2 itself, which has the source type.
    """
    from fencepost.cli.cluster.migration import migrate as migrate_flow

    migrate_flow(file, flow, to, (connector, into), is_dry=dry_run, is_confirmed=yes)


@mirror_app.command(cls=AlsoJson)
def status(
    where: Annotated[str, typer.Argument(help="A MirrorMaker 2 file, or a worker's REST API.", metavar="FILE|URL")],
    output: JsonForm = TextOrJson.TEXT,
) -> None:
    """Show the progress of flows: lag in records and in time, gaps, and the state of their tasks."""
    from fencepost.cli.cluster.mirror_status import status as show_status

    show_status(where, as_json=output is TextOrJson.JSON)


@mirror_app.callback()
def mirror() -> None:
    """Mirror topics of one Kafka cluster to another."""


topic_app = typer.Typer(help="Topics and their records, as the workers read them.", no_args_is_help=True)


@topic_app.command("list")
@on_worker
def list_topics(connect: "Connect", output: Form = Output.TABLE) -> None:
    """List the topics of the workers' Kafka. With roles this needs edit for all connectors."""
    from fencepost.cli.cluster.topic import asked

    found = asked(connect, ("topics",), {})
    Printer(output).listing(found, ("TOPIC", "PARTITIONS"), [(one["name"], str(one["partitions"])) for one in found])


@topic_app.command(cls=AlsoJson)
@on_worker
def read(
    connect: "Connect",
    topic: Annotated[str, typer.Argument(help="A topic.", metavar="TOPIC")],
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=MOST_RECORDS, help="How many records, at first.")
    ] = 10,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest: the first records; latest: the last ones; an offset; or a time: 2026-11-21T10:00:00Z.",
            metavar="earliest|latest|OFFSET|TIME",
        ),
    ] = LATEST,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    partition: Annotated[int | None, typer.Option(min=0, help="Only records of this partition.")] = None,
    connector: Annotated[
        str | None,
        typer.Option(
            help="Read as this connector does, which reads or writes the topic: its converters, its Kafka, its rights.",
            autocompletion=connector_names,
        ),
    ] = None,
    output: JsonForm = TextOrJson.TEXT,
) -> None:
    """Show committed records of a topic: keys, values and headers.

    With --follow it waits for a topic that does not exist yet, and goes on while workers are started again.

    The worker reads them, so this needs no access to Kafka. With roles it needs operate for the --connector; without
    that option, edit for all connectors.
    """
    from fencepost.cli.cluster.topic import lines_of, records

    path = ("topics", topic, "records") if connector is None else ("connectors", connector, "topics", topic, "records")
    given: dict[str, object] = {"from": start} | ({} if partition is None else {"partition": partition})
    for record in records(connect, path, given, count, is_endless=follow):
        if output is TextOrJson.JSON:
            print_json(record)
        else:
            typer.echo("\n".join(lines_of(record)))


def acls(
    properties: Annotated[
        Path, typer.Argument(help="Kafka Connect's distributed worker file, or a MirrorMaker 2 file.", metavar="WORKER")
    ],
    connector: Annotated[
        Path | None,
        typer.Argument(help="A connector's config in JSON, as for POST /connectors.", metavar="[CONNECTOR]"),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic that the connector writes to, or mirrors; repeatable. Default: from its config."),
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=User:NAME",
            help="The principal of a role (worker, producer, consumer, admin; for a mirror source, target) that is "
            "not in the settings; with a MirrorMaker 2 file, also of a cluster (its alias); repeatable.",
        ),
    ] = None,
    commands: Annotated[bool, typer.Option("--commands", help="Print kafka-acls commands instead of a table.")] = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="Grant the transactional ids of all tasks at once, by their prefix.")
    ] = False,
) -> None:
    """Print exactly the rights in Kafka that a worker and a connector need."""
    from fencepost.cli.cluster.acls import print_acls

    print_acls(
        properties,
        connector,
        topics=topic or [],
        principals=principal or [],
        as_commands=commands,
        is_prefixed=prefixed,
    )


def adopt(
    group: Annotated[
        str, typer.Argument(help="The program's group.id; for Kafka Streams, its application.id.", metavar="GROUP")
    ],
    properties: Annotated[
        Path | None,
        typer.Option(help="A file with the settings of Kafka clients, such as a worker's own.", metavar="FILE"),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(help="Kafka's bootstrap servers. Default: the file's, or 127.0.0.1:9092.")
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            help="A prefix of the program's transactional ids, in addition to those that Kafka's log names. All ids "
            "with this prefix are fenced; repeatable."
        ),
    ] = None,
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            help="A prefix of other programs' transactional ids that look like this program's, and are not fenced; "
            "if --prefix matches, too, the longer one counts; repeatable."
        ),
    ] = None,
    remove_members: Annotated[
        bool,
        typer.Option(
            "--remove-members", help="Remove members that are still in the group: of processes that are gone, or hang."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the state, and change nothing.")] = False,
    output: JsonForm = TextOrJson.TEXT,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for transactions that cannot be ended.", min=1)
    ] = 60.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take over a group that another program has processed exactly once, so that a stream connector can continue.

    Shows members, positions, producers and open transactions, and which belong together. Then it fences the producers:
    nothing of the program, whether it has ended or hangs, can be committed any more.
    """
    from fencepost.cli.client import client_properties
    from fencepost.cli.cluster.adopt import Options, take_over

    options = Options(
        client_properties(properties, bootstrap),
        tuple(prefix or ()),
        tuple(foreign or ()),
        removes_members=remove_members,
        is_dry=dry_run,
        as_json=output is TextOrJson.JSON,
        is_confirmed=yes,
        timeout_s=timeout,
    )
    take_over(group, options)
