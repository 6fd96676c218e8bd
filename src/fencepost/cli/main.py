"""The `fencepost` command."""

from typing import Annotated

import typer

from fencepost import __version__
from fencepost.api.errors import ConnectError
from fencepost.cli.acls.command import acls
from fencepost.cli.adopt.command import adopt
from fencepost.cli.apply.command import apply
from fencepost.cli.audit.command import audit
from fencepost.cli.connector.delete import delete
from fencepost.cli.connector.describe import describe
from fencepost.cli.connector.get import get
from fencepost.cli.connector.life_cycle import pause, resume, stop
from fencepost.cli.connector.restart import restart
from fencepost.cli.connector.status import status
from fencepost.cli.context.command import app as context_app
from fencepost.cli.dead_letters.command import dead_letters
from fencepost.cli.docs import docs
from fencepost.cli.ending import end_process
from fencepost.cli.export.command import export
from fencepost.cli.live.logs import logs
from fencepost.cli.live.top import top
from fencepost.cli.mirror.command import app as mirror_app
from fencepost.cli.new.command import app as new_app
from fencepost.cli.offsets.command import app as offsets_app
from fencepost.cli.password import hash_password
from fencepost.cli.plan.command import plan
from fencepost.cli.plugin.command import app as plugin_app
from fencepost.cli.topic.command import app as topic_app
from fencepost.cli.validate.command import validate
from fencepost.cli.worker.command import dev, worker
from fencepost.config import ConfigError
from fencepost.embedded.cli import app as kafka_app
from fencepost.telemetry.plain_line import printable

app = typer.Typer(
    name="fencepost",
    help="Exactly-once Kafka pipelines on Spark, with the surface of Kafka Connect.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(context_app, name="context")
app.add_typer(kafka_app, name="kafka", help="A real Kafka for development and tests.")
app.add_typer(mirror_app, name="mirror")
app.add_typer(new_app, name="new")
app.add_typer(offsets_app, name="offsets")
app.add_typer(plugin_app, name="plugin")
app.add_typer(topic_app, name="topic")


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


app.command()(worker)
app.command()(acls)
app.command()(adopt)
app.command()(audit)
app.command("dead-letters")(dead_letters)
app.command()(apply)
app.command()(get)
app.command()(status)
app.command()(describe)
app.command()(pause)
app.command()(resume)
app.command()(stop)
app.command()(restart)
app.command()(delete)
app.command()(validate)
app.command()(plan)
app.command()(export)
app.command()(top)
app.command()(logs)
app.command()(dev)
app.command()(docs)
app.command("hash-password")(hash_password)


def main() -> None:
    """Entry point of the console script."""
    code: object = 0
    try:
        app()
    except SystemExit as error:
        code = error.code
    except ConfigError as error:
        for message in error.messages:
            typer.echo(printable(message), err=True)
        code = 1
    except ConnectError as error:
        typer.echo(printable(str(error)), err=True)
        code = 1
    end_process(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
