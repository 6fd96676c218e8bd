"""Whether a server and a slot still have everything after a position. Pure."""

from fencepost.builtin.postgres.source.progress import Position, Server
from fencepost.postgres.lsn import format_lsn
from fencepost.postgres.slots import SlotState

_AGAIN = (
    "to begin again, with a new snapshot: stop the connector, delete its offsets (DELETE /connectors/NAME/offsets), "
    "drop the slot, and resume the connector"
)


def server_refusal(position: Position, server: Server, end_lsn: int | None, fork_lsn: int | None = None) -> str | None:
    """Return why the log of a server does not continue a position; None if it does.

    `server` is the one that answers now, and `end_lsn` the end of its log; None for a standby, whose log follows that
    of its primary. `fork_lsn` is where the history of the server has left the timeline of the position; 0 if that
    timeline is none of its history, and None if the server is still on it.
    """
    known, at = position.server, format_lsn(position.lsn)
    if known.system_identifier and known.system_identifier != server.system_identifier:
        return (
            f"the offsets are of the server with the system identifier {known.system_identifier}, but this one has "
            f"{server.system_identifier}: connect to that server or to a standby that was promoted; {_AGAIN}"
        )
    if server.timeline < known.timeline:
        return (
            f"the server is on timeline {server.timeline}, and the committed position of timeline {known.timeline}: it "
            "is the former primary, or a standby of it, and lacks what was written since the failover. Connect to the "
            "server that was promoted"
        )
    if fork_lsn is not None and position.lsn > fork_lsn:
        left = f"was left at {format_lsn(fork_lsn)}" if fork_lsn else "is not in its history"
        return (
            f"the server does not have what was committed up to {at}: it is on timeline {server.timeline}, and the "
            f"position's, {known.timeline}, {left}. A standby that lacked changes was promoted, or a backup was "
            f"restored, and the topics have changes that the database has lost; {_AGAIN}"
        )
    if end_lsn is not None and position.lsn > end_lsn:
        return (
            f"the committed position {at} is beyond the end of the server's log, {format_lsn(end_lsn)} (timeline "
            f"{server.timeline}): the server was restored from a backup; {_AGAIN}"
        )
    return None


def slot_refusal(position: Position, state: SlotState) -> str | None:
    """Return why a slot does not send all changes after a position; None if it does."""
    confirmed = state.confirmed_flush_lsn
    if confirmed is None or confirmed <= position.lsn:
        return None
    return (
        f"slot {state.name} is at {format_lsn(confirmed)}, beyond the committed position {format_lsn(position.lsn)}: "
        "the server does not send the changes in between any more. Another reader may use the slot, or offsets were "
        f"set back; {_AGAIN}"
    )
