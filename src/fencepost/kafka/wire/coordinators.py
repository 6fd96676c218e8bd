"""Finds the brokers that coordinate groups and transactional ids.

No epoch tells which of two brokers knows the newer coordinator. So the next time somebody asks for the same one, it was
not the right one, and another broker is asked than before.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

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
