"""The `fencepost` command."""

from pathlib import Path
from typing import Annotated

import typer

from fencepost import __version__
from fencepost.api.errors import ConnectError
from fencepost.cli.ending import end_process
from fencepost.cli.mirror_app import app as mirror_app
from fencepost.config import ConfigError
from fencepost.embedded.cli import app as kafka_app

app = typer.Typer(
    name="fencepost",
    help="Exactly-once Kafka pipelines on Spark, with the surface of Kafka Connect.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(kafka_app, name="kafka", help="A real Kafka for development and tests.")
app.add_typer(mirror_app, name="mirror")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@app.command()
def worker(
    properties: Annotated[Path, typer.Argument(help="Kafka Connect's distributed worker file.", metavar="FILE")],
) -> None:
    """Run a worker: REST, leader, connectors, and the Spark driver."""
    from fencepost.cli.run import run_worker

    raise typer.Exit(run_worker(properties))


@app.command()
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
            "not in the settings; repeatable.",
        ),
    ] = None,
    commands: Annotated[bool, typer.Option("--commands", help="Print kafka-acls commands instead of a table.")] = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="Grant the transactional ids of all tasks at once, by their prefix.")
    ] = False,
) -> None:
    """Print exactly the rights in Kafka that a worker and a connector need."""
    from fencepost.cli.acls import acls as print_acls

    print_acls(
        properties,
        connector,
        topics=topic or [],
        principals=principal or [],
        as_commands=commands,
        is_prefixed=prefixed,
    )


@app.command()
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for transactions that cannot be ended.", min=1)
    ] = 60.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take over a group that another program has processed exactly once, so that a stream connector can continue.

    Shows members, positions, producers and open transactions, and which belong together. Then it fences the producers:
    nothing of the program, whether it has ended or hangs, can be committed any more.
    """
    from fencepost.cli.adopt import How
    from fencepost.cli.adopt import adopt as adopt_group

    adopt_group(
        group,
        How(
            properties,
            bootstrap,
            tuple(prefix or ()),
            remove_members,
            dry_run,
            as_json,
            yes,
            timeout,
            tuple(foreign or ()),
        ),
    )


@app.command("dead-letters")
def dead_letters(
    connector: Annotated[str, typer.Argument(help="The connector's name.", metavar="CONNECTOR")],
    url: Annotated[str, typer.Option(help="A worker's REST API.")] = "http://127.0.0.1:8083",
    properties: Annotated[
        Path | None,
        typer.Option(help="A file with the settings of Kafka clients, such as the worker's own.", metavar="FILE"),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Kafka's bootstrap servers. Default: the connector's, the file's, or 127.0.0.1:9092."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="The dead letter topic. Default: the config's.")] = None,
    limit: Annotated[int, typer.Option(help="How many dead letters to show; 0: all.", min=0)] = 20,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Show the oldest dead letters instead of the newest.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a complete JSON object for each dead letter.")] = False,
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
    """Show the records that a connector could not process, or resend those of a sink, each once."""
    from fencepost.cli.dead_letters import Where, send_again, show

    where = Where(url, properties, bootstrap)
    if resend:
        send_again(connector, where, topic=topic, is_confirmed=yes, skipped=tuple(skip or ()))
    else:
        show(connector, where, topic=topic, limit=limit, is_from_beginning=from_beginning, as_json=as_json)


@app.command()
def dev(
    port: Annotated[int, typer.Option(help="Port of the REST API.")] = 8083,
    kafka_port: Annotated[int, typer.Option(help="Port of the embedded Kafka; 0: any free one.")] = 9092,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep Kafka's data here; without it they are deleted at the end.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="A worker setting; repeatable.")
    ] = None,
) -> None:
    """Run a worker with a Kafka of its own and exactly-once on; needs no configuration."""
    from fencepost.cli.run import run_dev

    raise typer.Exit(run_dev(port, kafka_port, directory, setting or []))


def main() -> None:
    """Entry point of the console script."""
    code: object = 0
    try:
        app()
    except SystemExit as error:
        code = error.code
    except ConfigError as error:
        for message in error.messages:
            typer.echo(message, err=True)
        code = 1
    except ConnectError as error:
        typer.echo(str(error), err=True)
        code = 1
    end_process(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
