"""Asks any broker of a cluster: questions to which all of them know the answer.

Only read requests are sent here. They change nothing and may be repeated.
"""

import time
from collections.abc import Collection
from typing import Any

from fencepost.kafka.wire.access import Access, Address
from fencepost.kafka.wire.connection import Connection, connect
from fencepost.kafka.wire.errors import AnswerError, LostError
from fencepost.kafka.wire.experience import Experience

_SOON_S = 2.0
_MOVES_EVERY_S = 1.0  # each move is a new connection


class AnyBroker:
    """The connection to the broker that is asked at present. For one thread at a time; `close` is for any."""

    def __init__(self, access: Access, experience: Experience) -> None:
        self._access = access
        self._experience = experience
        self._present: Connection | None = None
        self._spare: Connection | None = None  # to another broker, if two had to be asked
        self._moved_s = float("-inf")
        self._is_closed = False
        self._is_let_in = False  # by some broker so far

    @property
    def address(self) -> Address | None:
        """Return the address of the broker that was asked last."""
        return None if self._present is None else self._present.address

    def ask(self, request: Any, newest: int, deadline_s: float, *, oldest: int = 0) -> Any:
        """Ask the broker that was asked last, or the next server. One that does not answer soon is left for another.

        Raises LostError, AnswerError, UnsupportedError.
        """
        others, wait_s = len(self._servers()) - 1, _SOON_S
        while True:
            if self._present is not None and not self._present.is_usable():
                self._leave()
            self._present = asked = self._present or self._connected(self._servers(), deadline_s)
            self._ensure_open(asked)
            until_s = min(deadline_s, time.monotonic() + wait_s) if others > 0 else deadline_s
            try:
                return asked.ask(request, asked.version(request, oldest, newest), until_s)
            except LostError:
                self.distrust()
                if others <= 0 or self._is_closed or time.monotonic() >= deadline_s:
                    raise
            others, wait_s = others - 1, 2 * wait_s

    def ask_another(self, request: Any, newest: int, among: Collection[Address], deadline_s: float) -> Any:
        """Ask one of these brokers, but not the one that was asked last. It is the one to ask next.

        Raises LostError, AnswerError, UnsupportedError.
        """
        wanted = {each for each in among if each != self.address}
        before, self._present, self._spare = self._present, self._spare, None
        if self._present is not None and (self._present.address not in wanted or not self._present.is_usable()):
            self._leave()
        try:
            while True:
                if self._present is None:
                    self._present = self._connected(self._experience.servers(wanted, has_others=False), deadline_s)
                asked = self._present
                self._ensure_open(asked)
                until_s = min(deadline_s, time.monotonic() + _SOON_S) if len(wanted) > 1 else deadline_s
                try:
                    return asked.ask(request, asked.version(request, 0, newest), until_s)
                except LostError:
                    self.distrust()
                    wanted.discard(asked.address)
                    if not wanted or self._is_closed or time.monotonic() >= deadline_s:
                        raise
        finally:
            self._spare = before
            if before is not None and self._is_closed:
                before.close()

    def move_on(self, *, at_once: bool = False) -> None:
        """Ask another broker the next time, if there is one: what this one has reported seems to be out of date."""
        now_s = time.monotonic()
        if len(self._servers()) > 1 and (at_once or now_s - self._moved_s > _MOVES_EVERY_S):
            self._moved_s = now_s
            self._leave()

    def distrust(self) -> None:
        """Ask other brokers from now on, as long as they answer: this one has failed or is out of date."""
        if self._present is not None:
            self._experience.turns.failed(self._present.address)
            self._leave()

    def give(self, address: Address) -> Connection | None:
        """Hand over the connection if it is to this address: most clients ask only once.

        An older one may have been lost without a sign, together with that which it would replace.
        """
        found = self._present
        if found is None or found.address != address or found.may_have_ended or not found.is_usable():
            return None
        self._present = None  # whoever asks again makes another one
        return found

    def close(self) -> None:
        self._is_closed = True
        for each in (self._present, self._spare):
            if each is not None:
                each.close()

    def _leave(self) -> None:
        if self._present is not None:
            self._present.close()
            self._present = None

    def _servers(self) -> list[Address]:
        return self._experience.servers(self._access.servers)

    def _ensure_open(self, made: Connection) -> None:
        if self._is_closed:  # by another thread in the meantime
            made.close()
            raise LostError("the client is closed", is_sent=False)

    def _connected(self, addresses: list[Address], deadline_s: float) -> Connection:
        """Return a connection to the first server that answers soon; if none does, to the first that answers at all.

        One that refuses credentials with which another one has let us in is passed over. Else it is the only one that
        is asked: too many logins may lock an account.
        """
        problem: Exception = LostError("no bootstrap.servers", is_sent=False)
        refusing: set[Address] = set()
        for timeout_s in (*([_SOON_S] if len(addresses) > 1 else ()), self._access.answer_s):
            for address in (each for each in addresses if each not in refusing):
                self._experience.turns.asked(address)
                try:
                    made = connect(address, self._access, min(deadline_s, time.monotonic() + timeout_s))
                    self._is_let_in = True
                    return made
                except AnswerError as error:
                    self._experience.turns.failed(address)
                    if not self._is_let_in:
                        raise
                    problem = error
                    refusing.add(address)
                except LostError as error:
                    problem = error
                    self._experience.turns.failed(address)
                    if time.monotonic() >= deadline_s:  # the others have not failed
                        raise
        raise problem


def ask_others(
    asked: AnyBroker, experience: Experience, request: Any, newest: int, deadline_s: float
) -> list[tuple[Address | None, Any]]:
    """Return who else answers what to a request that one broker has answered: in all, two answer, if there are two.

    Two addresses that brokers report are of two brokers; a bootstrap server may be any of them. Raises LostError,
    AnswerError, UnsupportedError.
    """
    is_one_of_them = asked.address in experience.brokers
    found = []
    for _ in range(1 if is_one_of_them else 2):
        if len(experience.brokers) > 1:
            answer = asked.ask_another(request, newest, experience.brokers, deadline_s)
            found.append((asked.address, answer))
    return found
