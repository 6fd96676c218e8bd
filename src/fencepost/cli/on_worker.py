"""Commands that ask workers over REST: common options and arguments, the connection, the question before a change."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

_TIMEOUT_S = 1.0
LATEST = "latest"
MOST_RECORDS = 500
"""How many records of a topic REST answers with at most."""


def connector_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the connectors of the command's cluster whose names begin so: quickly, and none if nobody answers."""
    from fencepost.cli.connect import access, rest_client

    try:
        chosen = access(ctx.params.get("url"), ctx.params.get("context"))
        if chosen.asks:
            return []
        with rest_client(chosen, _TIMEOUT_S) as client:
            return sorted(name for name in client.get("/connectors").json() if name.startswith(incomplete))
    except Exception:  # the user is typing: whatever is wrong, the command will say it
        return []


ConnectorName = Annotated[
    str, typer.Argument(help="The connector's name.", metavar="CONNECTOR", autocompletion=connector_names)
]
ConnectorNames = Annotated[
    list[str], typer.Argument(help="The connectors' names.", metavar="CONNECTOR...", autocompletion=connector_names)
]


P = ParamSpec("P")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_URL = Annotated[
    str | None,
    typer.Option(help="A worker's REST API. Default: FENCEPOST_URL, that of a context, or http://127.0.0.1:8083."),
]
_CONTEXT = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A cluster that `fencepost context add` has named. Default: the current one."),
]


def on_worker(command: "Callable[Concatenate[Connect, P], None]") -> Callable[..., None]:
    """Return a command with the options --url and --context in place of its first parameter, the connection."""

    def connected(**arguments: Any) -> None:
        from fencepost.cli.connect import Connect, access

        with Connect(access(arguments.pop("url"), arguments.pop("context"))) as connect:
            command(connect, **arguments)  # type: ignore[call-arg]

    _, *own = inspect.signature(command).parameters.values()
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (("url", _URL), ("context", _CONTEXT))
    ]
    keyed = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    connected.__signature__ = inspect.Signature([*keyed, *options])  # type: ignore[attr-defined]
    connected.__annotations__ = {each.name: each.annotation for each in (*keyed, *options)}
    connected.__name__, connected.__doc__ = command.__name__, command.__doc__
    return connected


def confirm(connect: "Connect", question: str) -> None:
    """Ask, with the cluster's address: a prompt is the last place to see that it is the wrong one.

    Without a yes the command ends.
    """
    typer.confirm(f"{connect.access.place}: {question}", abort=True, err=True)
