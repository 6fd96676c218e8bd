"""The `fencepost` command."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fencepost import __version__
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
    properties: Annotated[Path, typer.Argument(help="Kafka Connect's distributed worker file.", metavar="WORKER")],
    connector: Annotated[
        Path | None,
        typer.Argument(help="A connector's config in JSON, as for POST /connectors.", metavar="[CONNECTOR]"),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic that the connector writes to; repeatable. Else its config says.")
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=User:NAME",
            help="The principal of a role (worker, producer, consumer, admin) that settings do not tell; repeatable.",
        ),
    ] = None,
    commands: Annotated[bool, typer.Option("--commands", help="Print kafka-acls commands, not a table.")] = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="One grant for the transactional ids of all tasks, by their beginning.")
    ] = False,
) -> None:
    """Print the rights in Kafka that a worker and a connector need: no more, no less."""
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
def dev(
    port: Annotated[int, typer.Option(help="Port of the REST API.")] = 8083,
    kafka_port: Annotated[int, typer.Option(help="Port of the embedded Kafka; 0: any free one.")] = 9092,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep Kafka's data here; without it they are gone at the end.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="A worker setting; repeatable.")
    ] = None,
) -> None:
    """Run a worker with a Kafka of its own, exactly-once on: nothing to configure."""
    from fencepost.cli.run import run_dev

    raise typer.Exit(run_dev(port, kafka_port, directory, setting or []))


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except ConfigError as error:
        for message in error.messages:
            typer.echo(message, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
