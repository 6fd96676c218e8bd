"""What the executor of a DataFrame split asks of the worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencepost.api import FencedError
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel import ChannelClient


@dataclass(frozen=True)
class SplitRun:
    """One run of one split, or of several together, as one transaction.

    `offset_keys` has a key for each of them. `rows_per_commit` 0: all rows in one transaction, as always with several.
    `forget`: offset keys to tombstone.
    """

    run: str
    producer_conf: Mapping[str, Any] = field(repr=False)
    topic: str
    offsets_topic: str
    offset_keys: tuple[bytes, ...]
    transactional_id: str | None
    rows_per_commit: int = 0
    forget: tuple[bytes, ...] = ()
    copies_offsets: bool = False


@dataclass(frozen=True)
class Admitted:
    """`positions` are the committed offsets of the splits, None where there is none."""

    positions: tuple[dict[str, Any] | None, ...]


class SplitClient(Protocol):
    """The worker, as the executor of a split sees it."""

    def spec(self) -> SplitRun: ...

    def admit(self) -> Admitted:
        """Called after every `init_transactions` (steps 6 and 7 of docs/architecture.md). Raises FencedError."""

    def is_unchanged(self) -> bool:
        """Say whether the splits still are what was planned; asked before every commit."""

    def copy(self, copies: Sequence[OffsetCopy]) -> None:
        """Have the worker copy offsets to its own topic; returns when they are acknowledged. Raises ChannelError."""

    def report(self, rows: Sequence[int], *, skipped: bool) -> None:
        """Tell that the splits are committed with so many rows each, or were found done (`skipped`)."""

    def expired(self, after_s: float) -> None:
        """Tell that the broker has ended the transaction, for it was open for longer than it may be."""


class _ChannelSplitClient:
    def __init__(self, channel: ChannelClient, run: str) -> None:
        self._channel = channel
        self._run = run

    def _call(self, verb: str, **body: Any) -> dict[str, Any]:
        return self._channel.call(f"/split/{verb}", {"run": self._run, **body}, timeout_s=120)

    def spec(self) -> SplitRun:
        data = self._call("spec")
        data["offset_keys"] = tuple(key.encode() for key in data["offset_keys"])
        data["forget"] = tuple(key.encode() for key in data.get("forget", ()))
        return SplitRun(**data)

    def admit(self) -> Admitted:
        answer = self._call("admit")
        if not answer["is_admitted"]:
            raise FencedError(f"split run {self._run} is not admitted: {answer['reason']}")
        return Admitted(tuple(answer["positions"]))

    def is_unchanged(self) -> bool:
        return bool(self._call("unchanged")["is_unchanged"])

    def copy(self, copies: Sequence[OffsetCopy]) -> None:
        self._call("copy", copies=[one.to_json() for one in copies])

    def report(self, rows: Sequence[int], *, skipped: bool) -> None:
        self._call("report", rows=list(rows), skipped=skipped)

    def expired(self, after_s: float) -> None:
        self._call("expired", after_s=after_s)


def split_client(channel_url: str, run: str) -> SplitClient:
    """Return the client of a run, for the process that this is called in."""
    return _ChannelSplitClient(ChannelClient(channel_url), run)
