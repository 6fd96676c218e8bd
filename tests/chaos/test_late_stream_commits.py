"""Forced rebalances of a stream, whose old members commit late: what they send is seen on the wire, and refused."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.group.group_admin import MemberRemoval
from fencepost.testing import eventually
from support.long_form import IS_LONG
from support.proxy import Action, ApiKey, KafkaProxy, Request
from support.stream_stage import StreamRun, StreamStage

ROUNDS = 200 if IS_LONG else 6
_A_ROUND = 5  # records
_ANY = 1_000_000
_WITHIN_S = 120


class Sent(NamedTuple):
    """What a TxnOffsetCommit says (version 3 and later, all strings shorter than 127 bytes)."""

    transactional_id: str
    generation: int
    member: str

    @classmethod
    def of(cls, request: Request) -> "Sent":
        frame = request.frame
        assert struct.unpack_from(">h", frame, 6)[0] >= 3, "a version that knows no generation"
        at = 14 + struct.unpack_from(">h", frame, 12)[0] + 1  # behind the client's id, and no tags
        transactional_id, at = _text(frame, at)
        _group, at = _text(frame, at)
        _producer, _epoch, generation = struct.unpack_from(">qhi", frame, at)
        return cls(transactional_id, generation, _text(frame, at + 14)[0])


def _text(frame: bytes, at: int) -> tuple[str, int]:
    end = at + frame[at]
    return frame[at + 1 : end].decode(), end


def error_in(answer: bytes) -> int:
    """Return the error of the first partition."""
    topic_ends = _text(answer, 14)[1]  # behind size, number, tags, time and the count of topics
    return int(struct.unpack_from(">h", answer, topic_ends + 1 + 4)[0])


@pytest.fixture
def proxy(kafka: EmbeddedKafka) -> Iterator[KafkaProxy]:
    with KafkaProxy(kafka.bootstrap_servers) as made:
        yield made


@pytest.fixture
def stage(kafka: EmbeddedKafka, topic_name: str) -> Iterator[StreamStage]:
    made = StreamStage(kafka.bootstrap_servers, topic_name[-40:].lstrip("-"))
    yield made
    made.close()


@pytest.mark.timeout(3600 if ROUNDS > 100 else 600)
def test_e19_late_commits_of_old_members_name_a_generation_and_are_refused(
    stage: StreamStage, proxy: KafkaProxy
) -> None:
    is_next_held = False
    removal = MemberRemoval(30)
    plain = proxy.on(ApiKey.OFFSET_COMMIT, Action.PASS, _ANY)
    others = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.PASS, _ANY, lambda _: not is_next_held)
    runs = [stage.start(task, via=proxy.bootstrap_servers, lanes=1) for task in range(2)]
    seen: list[Request] = []
    written = 0

    def has_holder() -> bool:
        return sum(run.runner.input is not None and bool(run.runner.input.assignment) for run in runs) == 1

    def sender(request: Request) -> StreamRun:
        return next(run for run in runs if run.runner.spec.output.transactional_id == Sent.of(request).transactional_id)

    def feed() -> int:
        stage.produce(range(written, written + _A_ROUND))
        return written + _A_ROUND

    for number in range(ROUNDS):
        eventually(has_holder, within_s=_WITHIN_S)
        late = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD)  # whose it is: the other one may just be joining
        is_next_held = True
        written = feed()
        late.await_met(within_s=_WITHIN_S)
        is_next_held = False
        removal.remove(sender(late.requests[0]).runner.spec.input.consumer_conf, lambda: True)
        eventually(lambda: stage.offsets().get(0) == written, within_s=_WITHIN_S)  # noqa: B023
        late.release()
        late.await_answered(within_s=_WITHIN_S)
        assert error_in(late.answers[0]) != 0, f"round {number}: a late commit was taken"
        seen += late.requests
        proxy.forget(late)
    eventually(has_holder, within_s=_WITHIN_S)
    for run in runs:
        run.stop()
    assert stage.values() == [str(n) for n in range(written)]
    assert stage.offsets() == {0: written}
    sent = [Sent.of(request) for request in (*seen, *others.requests)]
    assert len(seen) == ROUNDS
    assert [each for each in sent if each.generation < 0 or not each.member] == []
    assert plain.met == 0, "offsets were committed outside of a transaction"
