"""Whether a slot still has everything after a position. Pure."""

from fencepost.builtin.postgres.source.progress import Position, Server
from fencepost.postgres.lsn import format_lsn
from fencepost.postgres.slots import SlotState

_AGAIN = (
    "to begin again, with a new snapshot: stop the connector, delete its offsets (DELETE /connectors/NAME/offsets), "
    "drop the slot, and resume the connector"
)


def refusal(
    position: Position, server: Server, end_lsn: int, state: SlotState, *, fork_lsn: int | None = None
) -> str | None:
    """Return why a stream cannot continue from a position; None if it can.

    `server` is the one that answers now, `end_lsn` the end of its log, and `fork_lsn` where its history has left the
    timeline of the position; None if it has not.
    """
    known, at = position.server, format_lsn(position.lsn)
    if known.system_identifier and known.system_identifier != server.system_identifier:
        return (
            f"the offsets are of the server with the system identifier {known.system_identifier}, but this one has "
            f"{server.system_identifier}: connect to that server or to a standby that was promoted; {_AGAIN}"
        )
    if position.lsn > (end_lsn if fork_lsn is None else min(fork_lsn, end_lsn)):
        where = "end" if fork_lsn is None else "point where the server's log left that timeline, or the end"
        end = format_lsn(end_lsn if fork_lsn is None else min(fork_lsn, end_lsn))
        return (
            f"the committed position {at} is beyond the {where} of the server's log, {end} (timeline "
            f"{server.timeline}, before {known.timeline or 'unknown'}): the server was restored from a backup, or a "
            f"standby that lacked changes was promoted; {_AGAIN}"
        )
    confirmed = state.confirmed_flush_lsn
    if confirmed is not None and confirmed > position.lsn:
        return (
            f"slot {state.name} is at {format_lsn(confirmed)}, beyond the committed position {at}: the server does not "
            f"send the changes in between any more. Another reader may use the slot, or offsets were set back; {_AGAIN}"
        )
    return None
