"""Asks any broker of a cluster what all of them know, such as which ones coordinate groups and transactional ids.

Only read requests are sent to any broker: they change nothing and may be repeated. No epoch tells which of two brokers
knows the newer coordinator. So if the same one is asked for again, it was not the right one, and another broker is
asked than before.
"""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.errors import BUSY, AnswerError, LostError, UnsupportedError, ensure, retry_on
from fencepost.kafka.wire.access import Access, Address
from fencepost.kafka.wire.connection import Connection, connect
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


GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""

_ASK_AGAIN_S = 0.02
_NOT_YET = BUSY | {KafkaError.COORDINATOR_NOT_AVAILABLE}


class Coordinators:
    """Asks any broker for coordinators. For one thread at a time."""

    def __init__(self, asked: AnyBroker, experience: Experience) -> None:
        self._any = asked
        self._experience = experience
        self._found: dict[tuple[int, str], int] = {}

    def find(self, kind: int, key: str, deadline_s: float) -> int:
        """Return the node that coordinates a group or transactional id. Raises AnswerError, LostError.

        Whoever asks again has found that the last answer was not right: then another broker is asked.
        """
        return retry_on(lambda: self._find(kind, key, deadline_s), _NOT_YET, deadline_s, _ASK_AGAIN_S)

    def _find(self, kind: int, key: str, deadline_s: float) -> int:
        from fencepost.kafka.kafka_library import FindCoordinatorRequest

        if self._any.address is not None and self._experience.answered.get((kind, key)) == self._any.address:
            self._any.move_on()
        answer = self._any.ask(FindCoordinatorRequest(key=key, key_type=kind), 3, deadline_s)
        if self._any.address is not None:
            self._experience.record_coordinator(kind, key, self._any.address)
        ensure(answer.error_code, f"coordinator of {key}", answer.error_message)
        self._experience.learn_nodes([answer])
        self._found[kind, key] = int(answer.node_id)
        return self._found[kind, key]

    def find_all(self, kind: int, keys: Collection[str], deadline_s: float) -> dict[str, int | AnswerError]:
        """Return the node that coordinates each group or transactional id, or the error for it (KIP-699).

        Two brokers are asked, and a third if they differ: one that was replaced would answer with what it knew
        before. One that is not available is not waited for. Raises LostError, UnsupportedError.
        """
        from fencepost.kafka.kafka_library import FindCoordinatorRequest, MetadataRequest

        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        answers = [self._any.ask(request, 4, deadline_s, oldest=4)]
        if not self._experience.brokers:
            answer = self._any.ask(MetadataRequest(topics=[]), 12, deadline_s)
            self._experience.learn_nodes(answer.brokers, is_all=True)
        first = self._any.address
        others = ask_others(self._any, self._experience, request, 4, deadline_s)
        answers += [answer for _, answer in others]
        more = self._experience.brokers.difference([first, *(address for address, _ in others)])
        if more and _differ(answers):
            answers.append(self._any.ask_another(request, 4, more, deadline_s))
        return {key: self._agreed(key, answers) for key in keys}

    def _agreed(self, key: str, answers: Sequence[Any]) -> int | AnswerError:
        """Return the coordinator that most answers name, or the error of the first answer."""
        found = [each for answer in answers for each in answer.coordinators if each.key == key]
        failed = [each for each in found if each.error_code]
        if failed:
            return AnswerError(failed[0].error_code, f"coordinator of {key}", failed[0].error_message)
        (node, count), *_ = Counter(each.node_id for each in found).most_common(1)
        if len(found) > 1 and count < 2:
            return AnswerError(KafkaError.COORDINATOR_NOT_AVAILABLE, f"coordinator of {key}: brokers differ about it")
        self._experience.learn_nodes([each for each in found if each.node_id == node])
        return int(node)

    def have_moved(self, deadline_s: float) -> bool:
        """Return whether brokers agree that anything that was found here is coordinated by another node by now."""
        for (kind, key), node in self._found.items():
            try:
                now = self.find_all(kind, [key], deadline_s)[key]
            except (AnswerError, LostError, UnsupportedError):
                return False
            if not isinstance(now, AnswerError) and now != node:
                return True
        return False


def _differ(answers: Sequence[Any]) -> bool:
    named = [{each.key: each.node_id for each in answer.coordinators if not each.error_code} for answer in answers]
    return any(each != named[0] for each in named)
