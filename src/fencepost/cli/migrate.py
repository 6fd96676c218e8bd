"""`fencepost mirror migrate`: shows what a change of a flow's type takes along, and does it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from fencepost.cli.columns import aligned
from fencepost.cli.migration import Migration, Plan, Side
from fencepost.cli.mirror import chosen
from fencepost.config import ConfigError
from fencepost.mirror.dedicated import MirrorFile

_OTHER = {"sink": "source", "source": "sink"}
_HEADINGS = ("partition", "goes on at", "source ends at", "remote", "remote ends at")


def migrate(
    path: Path,
    flow: str | None,
    to: str,
    names: tuple[str | None, str | None],
    *,
    is_dry: bool = False,
    is_confirmed: bool = False,
) -> None:
    """Show the plan; do it, after the user has agreed. Raises ConfigError, or what Kafka says.

    Args:
        flow: which of the file's; None: the only one that is enabled.
        to: the type that the flow is to have.
        names: of the older connector and of the new one; None: as `fencepost mirror` calls them.
    """
    if to not in _OTHER:
        raise ConfigError(f"--to {to}: a flow's type is source or sink")
    file = MirrorFile.load(path)
    enabled = [each for each in file.flows() if each.choice.is_enabled]
    found = chosen(enabled, [flow] if flow else [], [])
    if len(found) > 1:
        raise ConfigError(f"--flow is missing: the file runs {', '.join(each.name for each in found)}")
    old, new = Side.of(found[0], _OTHER[to], names[0]), Side.of(found[0], to, names[1])
    with Migration(old, new) as migration:
        plan = migration.plan()
        for line in shown(old, new, plan):
            typer.echo(line)
        if is_dry or not plan.moves:
            return
        if not is_confirmed:
            typer.confirm("Take them along?", abort=True)
        plan = migration.carry_out()
    typer.echo(f"Done, and read again: {len(plan.moves)} positions stand in {new.place()}.")
    typer.echo(f"Now set {old.flow.name}.connector.type={to} in {path} and start it. The other type is stopped.")
    typer.echo(f"The way back: end it, and `fencepost mirror migrate {path} --flow '{old.flow.name}' --to {old.kind}`.")


def shown(old: Side, new: Side, plan: Plan) -> Iterator[str]:
    """Yield what the plan says, line by line."""
    yield f"{old.flow.name}: {old.name} ({old.kind}) hands over to {new.name} ({new.kind})"
    yield f"  from  {old.place()}"
    yield f"  to    {new.place()}"
    yield ""
    if plan.moves:
        yield from _table(plan)
    else:
        yield f"There are no positions of {old.name}: nothing is taken along."
    for place in plan.left_out:
        yield f"left out: {place.topic}-{place.partition}, whose remote topic is not there; it is mirrored anew"
    if plan.gaps:
        yield f"and {len(plan.gaps)} gaps that were written down"
    yield ""


def _table(plan: Plan) -> Iterator[str]:
    rows: list[Sequence[str]] = [_HEADINGS]
    for move in plan.moves:
        rows.append(
            (
                f"{move.place.topic}-{move.place.partition}",
                str(move.position),
                "?" if move.source_end is None else str(move.source_end),
                f"{move.remote.topic}-{move.remote.partition}",
                str(move.target_end),
            )
        )
    yield from aligned(rows)
