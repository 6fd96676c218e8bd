"""Finds the brokers that coordinate groups and transactional ids.

No epoch tells which of two brokers knows the newer coordinator. So the next time somebody asks for the same one, it was
not the right one, and another broker is asked than before.
"""

from collections.abc import Collection

from confluent_kafka import KafkaError

from fencepost.kafka.wire.any_broker import AnyBroker, ask_others
from fencepost.kafka.wire.errors import BUSY, AnswerError, LostError, UnsupportedError, ensure, retry_on
from fencepost.kafka.wire.experience import Experience

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
            self._any.move_on(at_once=True)
        answer = self._any.ask(FindCoordinatorRequest(key=key, key_type=kind), 3, deadline_s)
        if self._any.address is not None:
            self._experience.record_coordinator(kind, key, self._any.address)
        ensure(answer.error_code, f"coordinator of {key}", answer.error_message)
        self._experience.learn_nodes([answer])
        self._found[kind, key] = int(answer.node_id)
        return self._found[kind, key]

    def find_all(self, kind: int, keys: Collection[str], deadline_s: float) -> dict[str, int | AnswerError]:
        """Return the node that coordinates each group or transactional id, or the error for it (KIP-699).

        Two brokers are asked: a coordinator that has been replaced would answer with what it knew before. A coordinator
        that is not available is not waited for. Raises LostError, UnsupportedError.
        """
        from fencepost.kafka.kafka_library import FindCoordinatorRequest, MetadataRequest

        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        found: dict[str, int | AnswerError] = {}
        first = self._any.ask(request, 4, deadline_s, oldest=4)
        if not self._experience.brokers:
            answer = self._any.ask(MetadataRequest(topics=[]), 12, deadline_s)
            self._experience.learn_nodes(answer.brokers, is_all=True)
        others = ask_others(self._any, self._experience, request, 4, deadline_s)
        for answer in (first, *(other for _, other in others)):
            for each in answer.coordinators:
                if each.error_code:
                    found[each.key] = AnswerError(each.error_code, f"coordinator of {each.key}", each.error_message)
                elif found.setdefault(each.key, each.node_id) != each.node_id:
                    code = KafkaError.COORDINATOR_NOT_AVAILABLE
                    found[each.key] = AnswerError(code, f"coordinator of {each.key}, about which brokers differ")
                else:
                    self._experience.learn_nodes([each])
        return found

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
