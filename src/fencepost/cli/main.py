"""The `fencepost` command."""

from collections.abc import Callable
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from fencepost import __version__
from fencepost.api.errors import ConnectError
from fencepost.cli.cluster.command import acls, adopt, dev, mirror_app, topic_app, worker
from fencepost.cli.connector.command import (
    audit,
    dead_letters,
    delete,
    describe,
    get,
    offsets_app,
    pause,
    restart,
    resume,
    status,
    stop,
)
from fencepost.cli.connector.live import logs, top
from fencepost.cli.context import app as context_app
from fencepost.cli.file.command import apply, edit, export, plan, validate
from fencepost.cli.local.command import docs, hash_password, plugin_app
from fencepost.cli.local.new import new_app
from fencepost.cli.output import AlsoJson, end_process
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
