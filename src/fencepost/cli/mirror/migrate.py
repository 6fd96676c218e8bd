"""`fencepost mirror migrate`: shows the positions that a flow takes along when its type changes, and moves them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from fencepost.builtin.mirror.dedicated.file import MirrorFile
from fencepost.cli.columns import aligned
from fencepost.cli.mirror.migration import Migration, MigrationPlan, TypedFlow
from fencepost.cli.mirror.run import chosen
from fencepost.cli.progress import waiting
from fencepost.config import ConfigError

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
    """Show the plan and, after the user has agreed, carry it out. Raises ConfigError, or Kafka's errors.

    Args:
        flow: Which of the file's flows; None: the only enabled one.
        to: The new type of the flow.
        names: Of the old connector and of the new one; None: the names that `fencepost mirror` uses.
    """
    if to not in _OTHER:
        raise ConfigError(f"--to {to}: a flow's type is source or sink")
    file = MirrorFile.load(path)
    enabled = [each for each in file.flows() if each.choice.is_enabled]
    found = chosen(enabled, [flow] if flow else [], [])
    if len(found) > 1:
        raise ConfigError(f"--flow is missing: the file runs {', '.join(each.name for each in found)}")
    old, new = TypedFlow.of(found[0], _OTHER[to], names[0]), TypedFlow.of(found[0], to, names[1])
    with Migration(old, new) as migration:
        with waiting("Reading positions"):
            plan = migration.plan()
        for line in shown(old, new, plan):
            typer.echo(line)
        if is_dry or not plan.moves:
            return
        if not is_confirmed:
            typer.confirm("Take them along?", abort=True)
        with waiting(f"Moving {len(plan.moves)} positions"):
            plan = migration.carry_out()
    typer.echo(f"Done and verified: {len(plan.moves)} positions are in {new.place()}.")
    typer.echo(f"Now set {old.flow.name}.connector.type={to} in {path} and start it. The other type is stopped.")
    typer.echo(f"To go back: end it, and `fencepost mirror migrate {path} --flow '{old.flow.name}' --to {old.kind}`.")


def shown(old: TypedFlow, new: TypedFlow, plan: MigrationPlan) -> Iterator[str]:
    """Yield the lines of a plan."""
    yield f"{old.flow.name}: {old.name} ({old.kind}) hands over to {new.name} ({new.kind})"
    yield f"  from  {old.place()}"
    yield f"  to    {new.place()}"
    yield ""
    if plan.moves:
        yield from _table(plan)
    else:
        yield f"{old.name} has no positions: nothing is copied."
    for place in plan.left_out:
        yield f"skipped: {place.topic}-{place.partition}, which has no remote topic; it is mirrored from the start"
    if plan.gaps:
        yield f"and {len(plan.gaps)} recorded gaps"
    yield ""


def _table(plan: MigrationPlan) -> Iterator[str]:
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
