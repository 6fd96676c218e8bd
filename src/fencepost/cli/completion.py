"""Names that the shell completes: quickly, and none if the workers cannot be asked."""

from typing import Annotated

import typer

_TIMEOUT_S = 1.0


def connector_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the connectors of the command's cluster whose names begin so."""
    from fencepost.cli.rest import access, rest_client

    try:
        chosen = access(ctx.params.get("url"), ctx.params.get("context"))
        if chosen.asks:
            return []
        with rest_client(chosen, _TIMEOUT_S) as client:
            names = client.get("/connectors").json()
        return sorted(name for name in names if name.startswith(incomplete))
    except Exception:  # the user is typing: whatever is wrong, the command will say it
        return []


ConnectorName = Annotated[
    str, typer.Argument(help="The connector's name.", metavar="CONNECTOR", autocompletion=connector_names)
]
ConnectorNames = Annotated[
    list[str], typer.Argument(help="The connectors' names.", metavar="CONNECTOR...", autocompletion=connector_names)
]
