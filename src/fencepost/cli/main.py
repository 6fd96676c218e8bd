"""The `fencepost` command."""

from collections.abc import Callable
from typing import Annotated

import typer
from typer.core import TyperGroup

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
from fencepost.embedded.__main__ import app as kafka_app
from fencepost.telemetry.plain_line import printable


class _InPanels(TyperGroup):
    """Lists commands as `_PANELS` does."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return sorted(self.commands, key=_ORDER.index)


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


_PANELS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Start here": {"dev": dev, "docs": docs, "new": new_app, "apply": apply, "status": status},
    "Connectors": {
        "get": get, "describe": describe, "edit": edit, "validate": validate, "plan": plan, "export": export,
        "pause": pause, "resume": resume, "stop": stop, "restart": restart, "delete": delete, "top": top, "logs": logs,
        "offsets": offsets_app, "dead-letters": dead_letters, "audit": audit,
    },
    "Cluster": {
        "worker": worker, "topic": topic_app, "mirror": mirror_app, "context": context_app, "acls": acls,
        "adopt": adopt,
    },
    "Tools": {"plugin": plugin_app, "kafka": kafka_app, "hash-password": hash_password, "version": version},
}  # fmt: skip
_ORDER = [name for commands in _PANELS.values() for name in commands]
for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            _cls = AlsoJson if _command in (adopt, logs, dead_letters) else None
            app.command(_name, cls=_cls, rich_help_panel=_panel)(_command)


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
