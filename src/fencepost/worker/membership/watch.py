"""Workers that are killed are missed at once, not by the session time-out: nobody listens at their address any more.

A refused connection says that no process listens there, in nearly every case since there is none. A worker that is cut
off, or stands still, refuses nothing. Where the look is wrong (something in front answers for the address, or REST
ended alone) no record is lost or doubled: the worker is only put out of its group, as its coordinator does after the
session time-out; its tasks are fenced before they move (E2), and it joins again (docs/decisions/0027).
"""

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol
from urllib.parse import urlsplit

from fencepost.kafka.group.group_admin import Group, GroupMember

log = logging.getLogger(__name__)

_EVERY_S = 0.5
_AGAIN_S = 0.2
_CONNECT_S = 0.5
_GROUP_S = 1.0
_AT_ONCE = 8
_IN_A_ROW = 3
_RESET = struct.pack("ii", 1, 0)
_PORTS = {"http": 80, "https": 443}


class Look(Enum):
    """What a connection to a worker's address comes to."""

    ANSWERED = "answered"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass
class _Seen:
    has_answered: bool = False
    refusals: int = 0
    was_evicted: bool = False


@dataclass
class Refusals:
    """Judges looks at workers: whom they show to be gone. Keyed by incarnation, which is never used twice."""

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def judge(self, incarnation: str, look: Look) -> bool:
        """Take note of a look at a worker that the group still has; return whether its process is gone.

        It is where its address has answered before and has now refused three times in a row: an address that never led
        to it from here says nothing.
        """
        seen = self._seen.setdefault(incarnation, _Seen())
        seen.has_answered |= look is Look.ANSWERED
        seen.refusals = seen.refusals + 1 if look is Look.REFUSED else 0
        return seen.has_answered and not seen.was_evicted and seen.refusals >= _IN_A_ROW

    def evicted(self, incarnation: str) -> None:
        """Take note that it was put out of the group. If it comes back, its address is not believed again."""
        self._seen[incarnation].was_evicted = True

    def keep_only(self, incarnations: Iterable[str]) -> None:
        """Forget the others, but for those that may come back."""
        kept = set(incarnations)
        self._seen = {name: seen for name, seen in self._seen.items() if name in kept or seen.was_evicted}


def look_at(url: str, timeout_s: float = _CONNECT_S) -> Look:
    """Connect to an address, and close the connection again."""
    address = urlsplit(url)
    try:
        port = address.port or _PORTS[address.scheme]
        with socket.create_connection((address.hostname or "", port), timeout_s, all_errors=True) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # leaves nothing behind, here or there
    except ExceptionGroup as errors:  # one for each address that the name has
        is_refused = all(isinstance(error, ConnectionRefusedError) for error in errors.exceptions)
        return Look.REFUSED if is_refused else Look.UNKNOWN
    except (OSError, ValueError, KeyError):
        return Look.UNKNOWN
    return Look.ANSWERED


class Watched(Protocol):
    """What is needed of `Peers`."""

    url: str

    def group(self) -> Group: ...

    def incarnation(self, url: str) -> str | None: ...


class PeerWatch:
    """Looks at other workers, several times a second, in threads of its own.

    Whoever leads looks at all others, and all others at whoever leads.
    """

    def __init__(
        self,
        peers: Watched,
        is_leading: Callable[[], bool],
        evict: Callable[[GroupMember], None],
        stopping: threading.Event,
        look: Callable[[str], Look] = look_at,
    ) -> None:
        """`evict(member)` puts a member out of the group whose process is gone; after an error it is called again.

        Nobody is evicted once this worker is `stopping`.
        """
        self._peers = peers
        self._is_leading = is_leading
        self._evict = evict
        self._look_at = look
        self._refusals = Refusals()
        self._members: tuple[GroupMember, ...] = ()
        self._asked_s = float("-inf")
        self._stopping = stopping
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="peer-look")
        self._thread = threading.Thread(target=self._run, name="peer-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self) -> bool:
        """Look once at everybody who is to be looked at. Returns whether somebody refused.

        Raises what kept somebody from being evicted, once all others are.
        """
        members = self._to_look_at()
        named = {m.client_id: self._peers.incarnation(m.client_id) for m in self._members}
        self._refusals.keep_only(name for name in named.values() if name is not None)
        looks = list(self._pool.map(self._look_at, [m.client_id for m in members]))
        failed: list[Exception] = []
        for member, look in zip(members, looks, strict=True):
            incarnation = named[member.client_id]
            if incarnation is not None and self._refusals.judge(incarnation, look) and not self._stopping.is_set():
                log.warning("nobody listens at %s any more: that worker is taken out of the group", member.client_id)
                self._asked_s = float("-inf")
                try:
                    self._evict(member)
                    self._refusals.evicted(incarnation)
                except Exception as error:  # nothing to those after it
                    failed.append(error)
        if failed:
            raise failed[0]
        return Look.REFUSED in looks

    def _to_look_at(self) -> list[GroupMember]:
        now_s = time.monotonic()
        if now_s > self._asked_s + _GROUP_S:
            self._members, self._asked_s = self._peers.group().members, now_s
        leads = self._is_leading()
        return [m for m in self._members if m.client_id != self._peers.url and (leads or m.topic_partitions)]

    def _run(self) -> None:
        pause_s = _EVERY_S
        while not self._stopping.wait(pause_s):
            pause_s = _EVERY_S
            try:
                pause_s = _AGAIN_S if self.look() else _EVERY_S
            except Exception as error:
                log.debug("the other workers are not looked at: %s", error)
