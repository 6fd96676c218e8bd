"""`fencepost mirror`: its commands; `run` is the default."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fencepost.cli.output import AlsoJson, JsonForm, TextOrJson

_FILE = typer.Argument(help="A MirrorMaker 2 file.", metavar="FILE")


class RunUnlessNamed(TyperGroup):
    """Treats `mirror FILE` as `mirror run FILE`."""

    unless_named = "run"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if is_named else [self.unless_named, *args])


app = typer.Typer(cls=RunUnlessNamed, no_args_is_help=True, help="Mirror topics of one Kafka cluster to another.")


@app.command()
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
    from fencepost.cli.mirror.run import run_mirror

    raise typer.Exit(run_mirror(file, flow or [], clusters or [], parent))


@app.command()
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
    from fencepost.cli.mirror.migrate import migrate as migrate_flow

    migrate_flow(file, flow, to, (connector, into), is_dry=dry_run, is_confirmed=yes)


@app.command(cls=AlsoJson)
def status(
    where: Annotated[str, typer.Argument(help="A MirrorMaker 2 file, or a worker's REST API.", metavar="FILE|URL")],
    output: JsonForm = TextOrJson.TEXT,
) -> None:
    """Show the progress of flows: lag in records and in time, gaps, and the state of their tasks."""
    from fencepost.cli.mirror.status import status as show_status

    show_status(where, as_json=output is TextOrJson.JSON)


@app.callback()
def mirror() -> None:
    """Mirror topics of one Kafka cluster to another."""
