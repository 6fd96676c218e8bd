"""The `fencepost` command."""

from collections.abc import Callable
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

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
from fencepost.cli.edit.command import edit
from fencepost.cli.ending import end_process
from fencepost.cli.export.command import export
from fencepost.cli.live.logs import logs
from fencepost.cli.live.top import top
from fencepost.cli.mirror.command import app as mirror_app
from fencepost.cli.new.command import app as new_app
from fencepost.cli.offsets.command import app as offsets_app
from fencepost.cli.output import AlsoJson
from fencepost.cli.password import hash_password
from fencepost.cli.plan.command import plan
from fencepost.cli.plugin.command import app as plugin_app
from fencepost.cli.topic.command import app as topic_app
from fencepost.cli.validate.command import validate
from fencepost.cli.worker.command import dev, worker
from fencepost.config import ConfigError
from fencepost.embedded.cli import app as kafka_app
from fencepost.telemetry.plain_line import printable

_START, _CONNECTORS, _CLUSTER, _TOOLS = "Start here", "Connectors", "Cluster", "Tools"
_PANELS = {
    _START: ("dev", "docs", "new", "apply", "status"),
    _CONNECTORS: ("get", "describe", "edit", "validate", "plan", "export", "pause", "resume", "stop", "restart",
                  "delete", "top", "logs", "offsets", "dead-letters", "audit"),
    _CLUSTER: ("worker", "topic", "mirror", "context", "acls", "adopt"),
    _TOOLS: ("plugin", "kafka", "hash-password", "version"),
}  # fmt: skip
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}


class _InPanels(TyperGroup):
    """Lists commands as `_PANELS` does."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        order = list(_PANEL_OF)
        return sorted(self.commands, key=lambda name: order.index(name) if name in order else len(order))


app = typer.Typer(
    name="fencepost",
    help="Exactly-once Kafka pipelines on Spark, with the surface of Kafka Connect.",
    cls=_InPanels,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _add(command: Callable[..., None], name: str = "", cls: type[TyperCommand] | None = None) -> None:
    name = name or command.__name__
    app.command(name, cls=cls, rich_help_panel=_PANEL_OF.get(name))(command)


for _name, _group in {
    "context": context_app,
    "kafka": kafka_app,
    "mirror": mirror_app,
    "new": new_app,
    "offsets": offsets_app,
    "plugin": plugin_app,
    "topic": topic_app,
}.items():
    app.add_typer(_group, name=_name, rich_help_panel=_PANEL_OF[_name])
for _command in (
    acls, apply, audit, delete, describe, dev, docs, edit, export, get, pause, plan, restart, resume, status, stop, top,
    validate, version, worker,
):  # fmt: skip
    _add(_command)
_add(adopt, cls=AlsoJson)
_add(logs, cls=AlsoJson)
_add(dead_letters, "dead-letters", AlsoJson)
_add(hash_password, "hash-password")


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
