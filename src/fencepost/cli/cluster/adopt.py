"""`fencepost adopt`: takes over a group that another program has processed, and prints its state."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import typer

from fencepost.cli.output import aligned, print_json
from fencepost.config import ConfigError
from fencepost.kafka.group.group_offsets import Committed
from fencepost.kafka.setting.client_settings import producer_conf
from fencepost.record import TopicPartition
from fencepost.transaction.adoption import Adoption, GroupView, Holder, InputPartition

_INPUTS = ("partition", "goes on at", "ends at", "member", "last committed by")
_HOLDERS = ("transactional id", "producer", "its input", "its transaction")
_NO_ONE = "-"

Positions = Mapping[TopicPartition, Committed]


def shown(view: GroupView) -> Iterator[str]:
    """Yield the lines of a view."""
    yield f"{view.group}: {view.kind}, {view.state}, {len(view.members)} members"
    for member in sorted(view.members, key=lambda each: (sorted(each.topic_partitions), each.client_id)):
        having = ", ".join(sorted(f"{topic}-{number}" for topic, number in member.topic_partitions))
        yield f"  {member.client_id} at {member.host.lstrip('/')}: {having or 'no partitions'}"
    yield ""
    if view.inputs:
        yield from aligned([_INPUTS, *map(_input_row, view.inputs)])
        yield ""
    if view.holders:
        yield from aligned([_HOLDERS, *map(_holder_row, view.holders)])
    else:
        yield "No producer is known that committed offsets of this group in transactions."
    for id_ in view.guessed:
        yield f"{id_} is known only by its name: use --prefix {id_} to have it fenced, or --foreign {id_} to ignore it."
    for producer in view.nameless:
        yield (
            f"Producer {producer} has offsets of this group in an open transaction, but its transactional id is not "
            "visible: that needs Describe on it. The takeover waits for this transaction."
        )
    if view.blind is not None:
        yield f"Producers are found only by --prefix: {view.blind}"
    yield ""


def _input_row(each: InputPartition) -> tuple[str, ...]:
    stands = "pending" if each.is_pending else _or_none(each.committed)
    return _name(each.place), stands, _or_none(each.end), each.member or _NO_ONE, each.by or _NO_ONE


def _holder_row(holder: Holder) -> tuple[str, ...]:
    found = holder.transaction
    places = ", ".join(map(_name, sorted(holder.places)))
    incarnation = f"{found.producer_id}:{_or_none(found.producer_epoch)}"
    return found.transactional_id, incarnation, places or _NO_ONE, _transaction(holder)


def _transaction(holder: Holder) -> str:
    if not holder.is_open:
        return f"none ({holder.transaction.state})"
    started_ms = holder.transaction.started_ms
    age = f" for {max(0.0, time.time() - started_ms / 1000):.1f} s" if started_ms is not None else ""
    return f"open{age}, {'with' if holder.is_pending else 'without'} offsets of this group"


def ending(view: GroupView, positions: Positions) -> Iterator[str]:
    yield f"Done: {len(view.holders)} producers are fenced, and {len(positions)} positions are stable:"
    yield from aligned(
        [("partition", "goes on at"), *((_name(p), str(positions[p].offset)) for p in sorted(positions))]
    )
    for each in view.inputs:
        if each.place not in positions:
            yield f"{_name(each.place)}: nothing is committed; a connector begins as auto.offset.reset says"
    yield ""
    yield f"A stream connector continues there with consumer.override.group.id={view.group}"


def to_json(view: GroupView, positions: Positions | None) -> dict[str, Any]:
    """Return what `--json` prints; `positions` is None before the takeover."""
    return {
        "group": view.group,
        "kind": view.kind,
        "state": view.state,
        "members": [
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "host": each.host,
                "partitions": sorted(map(_name, (TopicPartition(*place) for place in each.topic_partitions))),
            }
            for each in view.members
        ],
        "partitions": [
            {
                "partition": _name(each.place),
                "committed": each.committed,
                "is_pending": each.is_pending,
                "end": each.end,
                "member": each.member,
                "transactional_id": each.by,
            }
            for each in view.inputs
        ],
        "producers": [
            {
                "transactional_id": each.transaction.transactional_id,
                "producer_id": each.transaction.producer_id,
                "producer_epoch": each.transaction.producer_epoch,
                "state": each.transaction.state,
                "is_open": each.is_open,
                "has_offsets": each.is_pending,
                "is_guessed": each.is_guessed,
                "partitions": [_name(place) for place in sorted(each.places)],
            }
            for each in view.holders
        ],
        "unnamed_producers": list(view.nameless),
        "is_adopted": positions is not None,
        "positions": None if positions is None else {_name(p): positions[p].offset for p in sorted(positions)},
    }


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def _or_none(number: int | None) -> str:
    return _NO_ONE if number is None else str(number)


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
            count = sum(holder.is_open for holder in view.holders)
            question = f"Fence {len(view.holders)} producers, and abort {count} open transactions?"
            typer.confirm(question, abort=True, err=options.as_json)
        positions = adoption.take_over(view, options.timeout_s, removes_members=options.removes_members)
        if options.as_json:
            _show(view, positions, as_json=True)
        else:
            typer.echo("\n".join(ending(view, positions)))


def _show(view: GroupView, positions: Positions | None, *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(view, positions), indent=2)
    else:
        typer.echo("\n".join(shown(view)))
