"""SIGKILLs at chosen moments, and what the broker says of them."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import psutil

from fencepost.kafka.group.transactions import Transaction, TransactionAdmin
from fencepost.testing import eventually

_OPEN = frozenset({"Ongoing", "PrepareCommit"})
_AIM_S = 20.0
_ANSWER_S = 20.0
_LOOK_EVERY_S = 0.003


@dataclass(frozen=True)
class Kill:
    """One SIGKILL that is to come: of which processes, when which share of the rows is visible.

    It takes aim at the transactions of `transactional_ids`. `then` is what is to be done afterwards.
    """

    what: str
    at_share: float
    victims: Callable[[], Sequence[psutil.Process]]
    transactional_ids: Sequence[str]
    then: Callable[[], None]


@dataclass(frozen=True)
class Killed:
    """One SIGKILL that was: whose transactions the broker still had open, with nobody left to end them."""

    what: str
    at_share: float
    interrupted: tuple[str, ...]

    @property
    def is_inside_transaction(self) -> bool:
        return bool(self.interrupted)


class Killer:
    """Kills, preferably inside a transaction; a context manager. Connects when it is entered."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.killed: list[Killed] = []

    def __enter__(self) -> Self:
        self._admin = TransactionAdmin({"bootstrap.servers": self._bootstrap})
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def carry_out(self, kill: Kill, share: float) -> Killed:
        """1. Wait a little for an open transaction. 2. Kill. 3. Ask what is open still: that was interrupted.

        What the broker says before 2 proves nothing, as the transaction may have ended in the meantime. What it says
        of the dead does, unless it speaks of another producer: a successor.
        """
        victims = kill.victims()  # looked up before, as that takes longer than some transactions
        before = self._await_open(kill.transactional_ids)  # 1
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()  # 2
        after = self._ask(kill.transactional_ids)  # 3
        interrupted = (i for i, t in after.items() if t.state in _OPEN and _producer(t) == before.get(i))
        killed = Killed(kill.what, share, tuple(sorted(interrupted)))
        self.killed.append(killed)
        return killed

    def _await_open(self, ids: Sequence[str]) -> dict[str, tuple[int, int | None]]:
        """Returns who the producers are, whether or not one has a transaction open in the end."""
        deadline = time.monotonic() + _AIM_S
        while True:
            found = self._ask(ids)
            if any(t.state in _OPEN for t in found.values()) or time.monotonic() > deadline:
                return {i: _producer(t) for i, t in found.items()}
            time.sleep(_LOOK_EVERY_S)

    def _ask(self, ids: Sequence[str]) -> dict[str, Transaction]:
        """A broker that is busy with its own topics is asked again."""
        return eventually(lambda: [self._admin.describe(ids)], within_s=_ANSWER_S, every_s=_LOOK_EVERY_S)[0]


def _producer(transaction: Transaction) -> tuple[int, int | None]:
    return transaction.producer_id, transaction.producer_epoch
