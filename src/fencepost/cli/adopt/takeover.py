"""`fencepost adopt`: takes over a group that another program has processed, so that a stream connector can continue."""

import json
from dataclasses import dataclass, field

import typer

from fencepost.cli.adopt.report import Positions, ending, shown, to_json
from fencepost.config import ConfigError
from fencepost.kafka.setting.client_settings import producer_conf
from fencepost.transaction.adoption import Adoption, GroupView


@dataclass(frozen=True)
class Options:
    """The user's options.

    Attributes:
        clients: Settings of Kafka clients.
        prefixes: Of the program's transactional ids, in addition to those in Kafka's log.
        foreign: Prefixes of ids that only look like the program's.
    """

    clients: dict[str, str] = field(repr=False)
    prefixes: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    removes_members: bool = False
    is_dry: bool = False
    as_json: bool = False
    is_confirmed: bool = False
    timeout_s: float = 60.0


def take_over(group: str, options: Options) -> None:
    """Show the state and, after the user has agreed, take over.

    Raises ConfigError, AdoptionError, or Kafka's errors.
    """
    for option, prefixes in (("--prefix", options.prefixes), ("--foreign", options.foreign)):
        if not all(prefixes):
            raise ConfigError([f"{option} must not be empty: every transactional id begins with the empty text"])
    with Adoption(producer_conf(options.clients).conf, group, options.prefixes, options.foreign) as adoption:
        view = adoption.look()
        if options.is_dry:
            _show(view, None, as_json=options.as_json)
            return
        if not options.as_json:
            _show(view, None, as_json=False)
        adoption.ensure_free(view, removes_members=options.removes_members)
        adoption.ensure_attributed(view)
        if not options.is_confirmed:
            typer.confirm(_question(view), abort=True, err=options.as_json)
        positions = adoption.take_over(view, options.timeout_s, removes_members=options.removes_members)
        if options.as_json:
            _show(view, positions, as_json=True)
        else:
            typer.echo("\n".join(ending(view, positions)))


def _show(view: GroupView, positions: Positions | None, *, as_json: bool) -> None:
    typer.echo(json.dumps(to_json(view, positions), indent=2) if as_json else "\n".join(shown(view)))


def _question(view: GroupView) -> str:
    count = sum(holder.is_open for holder in view.holders)
    return f"Fence {len(view.holders)} producers, and abort {count} open transactions?"
