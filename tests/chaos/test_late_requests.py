"""Requests that arrive in a later transaction of the same producer, or are lost with their connection.

librdkafka speaks the protocol in which a coordinator cannot tell a late request from one of the current transaction.
A task that keeps E5 is exact all the same; one that does not is not, which is shown first.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import StrikeLog
from fencepost.kafka.setting.table import BATCH, CLIENT, LIBRDKAFKA
from fencepost.testing import eventually
from support.chaos.evidence import Evidence
from support.clients import use_version
from support.late.attempt import Attempt, plan
from support.late.trial import Trials
from support.long_form import IS_LONG
from support.member import undisturbed_member
from support.proxy import Action, ApiKey

COUNT = 200 if IS_LONG else 8
OF_A_VERSION = 100 if IS_LONG else 3
SIZES = (6, 7, 8, 9, 10, 11, 12, 13, 14, 15)


@pytest.fixture
def client() -> str:
    """Which client the tasks' producers are; a test may have another."""
    return LIBRDKAFKA


@pytest.fixture
def trials(kafka: EmbeddedKafka, topic_name: str, client: str) -> Iterator[Trials]:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(f"{topic_name}-offsets", partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    terms: list = []
    conf = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic_name}
    membership = undisturbed_member(conf, f"{topic_name}-offsets", terms.append)
    membership.start()
    metadata = eventually(lambda: terms and terms[-1].metadata)
    yield Trials(kafka.bootstrap_servers, topic_name, metadata, {CLIENT: client})
    membership.stop()


def late(request: ApiKey, before: tuple[ApiKey, int], **how) -> Attempt:
    return Attempt(request, Action.HOLD_AND_RESET, 2, before, SIZES, **how)


@pytest.fixture
def evidence(seed: int) -> Iterator[Evidence]:
    kept = Evidence("late requests", seed)
    yield kept
    kept.close()


@pytest.mark.chaos
@pytest.mark.timeout(60 * COUNT)
def test_e5_late_and_lost_requests_leave_the_delivery_exact(trials, seed, evidence, capfd):
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        outcomes = []
        for number, attempt in enumerate(plan(seed, COUNT), 1):
            outcomes.append(trials.run(attempt))
            evidence.fault(attempt.action.name.lower(), attempt.request.name, None, None)
            evidence.records += attempt.total
            print(f"try {number}: {outcomes[-1]}", flush=True)
        print(f"{len(outcomes)} tries, {sum(o.was_late for o in outcomes)} of them late in a later transaction")
    assert [str(outcome) for outcome in outcomes if not outcome.is_exact] == []
    assert all(outcome.was_met and outcome.producers_retired for outcome in outcomes)
    evidence.verdict = "clean"


@pytest.mark.chaos
@pytest.mark.timeout(60 * COUNT)
@pytest.mark.parametrize("client", [BATCH])
@pytest.mark.parametrize("version", [1, 2], ids=["version 1", "version 2"])
def test_e21_late_and_lost_requests_leave_unrepeated_delivery_exact(
    trials, seed, version, evidence, monkeypatch, capfd
):
    """No producer is struck by a commit, and the same holds: version 1 because what is late comes behind a fence."""
    use_version(version, monkeypatch)
    outcomes = []
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        for number, attempt in enumerate(plan(seed + version, OF_A_VERSION), 1):
            begins = ApiKey.ADD_PARTITIONS_TO_TXN if version == 1 else ApiKey.PRODUCE
            if attempt.request is ApiKey.ADD_PARTITIONS_TO_TXN:
                attempt = replace(attempt, request=begins)
            if attempt.before[0] is ApiKey.ADD_PARTITIONS_TO_TXN:
                attempt = replace(attempt, before=(begins, 1))
            outcomes.append(trials.run(attempt))
            evidence.fault(attempt.action.name.lower(), attempt.request.name, None, None, client=BATCH)
            evidence.records += attempt.total
            print(f"try {number}: {outcomes[-1]}", flush=True)
    assert [str(outcome) for outcome in outcomes if not outcome.is_exact] == []
    assert all(outcome.was_met and outcome.producers_retired for outcome in outcomes)
    evidence.verdict = "clean"


TORN = {
    "end": late(ApiKey.END_TXN, (ApiKey.PRODUCE, 2)),
    "end in a lane": late(ApiKey.END_TXN, (ApiKey.PRODUCE, 2), lane=1, lanes=2),
    "offset in a group": late(ApiKey.TXN_OFFSET_COMMIT, (ApiKey.END_TXN, 1), is_group=True),
}


@pytest.mark.chaos
@pytest.mark.parametrize("attempt", TORN.values(), ids=TORN)
def test_a_late_request_does_harm_when_a_struck_producer_is_kept(trials, attempt, monkeypatch, capfd):
    """The test of the test above: the same fault, and nobody who notices it."""
    monkeypatch.setattr(StrikeLog, "emit", lambda self, record: None)
    outcome = trials.run(attempt)
    with capfd.disabled():
        print(f"\n{outcome}")
    assert outcome.was_late
    assert not outcome.is_exact


@pytest.mark.chaos
@pytest.mark.parametrize("attempt", TORN.values(), ids=TORN)
def test_e5_a_late_request_does_no_harm_when_a_struck_producer_is_replaced(trials, attempt):
    outcome = trials.run(attempt)
    assert outcome.was_late
    assert outcome.is_exact, str(outcome)
