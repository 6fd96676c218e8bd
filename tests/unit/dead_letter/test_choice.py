"""What is to be sent, what is to be passed over, and what stops it."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from fencepost.api import ConfigError, FencedError
from fencepost.dead_letter import resend as resend_module
from fencepost.dead_letter.letter import Skipped
from fencepost.dead_letter.progress import Handled
from fencepost.dead_letter.resend import Resend
from fencepost.kafka.read.browse import TopicRecord
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from fencepost.worker.operation.connector.dead_letters import Resends, _Wanted


def letter(offset: int, origin: str = "orders") -> TopicRecord:
    facts = {"topic": origin, "partition": "0", "offset": "7", "connector.name": "c"}
    context: Any = tuple((f"__connect.errors.{name}", text.encode()) for name, text in facts.items())
    return TopicRecord(0, offset, 1, None, b"v", context)


class Log:
    """A topic in memory, of which the group has passed `passed`."""

    topic = "dead"
    group = "fencepost-dead-letters-c"

    def __init__(self, *records: TopicRecord, passed: int | None = None) -> None:
        self.records = records
        self.ranges = {0: (0, len(records))}
        self.passed = passed

    def read(self, ranges: Mapping[int, tuple[int, int]], key_bounds: Any = None) -> Iterable[TopicRecord]:
        for first, end in ranges.values():
            yield from (one for one in self.records if first <= one.offset < end and key_bounds is None)

    def peek(self, partitions: Iterable[int]) -> dict[int, GroupOffset]:
        return {} if self.passed is None else {0: GroupOffset("dead", 0, self.passed, "")}

    def ensure_no_members(self) -> None:
        pass


def resend_of(log: Log, *skip: str, **fields: Any) -> Resend:
    part: Any = log
    return Resend("c", part, part, skipped=Skipped.of("dead", skip), **fields)


@pytest.mark.parametrize("name", ["dead@0", "dead-0@x", "ded-0@4", "dead-0@", "@", "dead-0@4 "])
def test_skip_refuses_a_name_that_is_no_dead_letter(name: str) -> None:
    """A name without a match would skip nothing, and the dead letter would be sent."""
    with pytest.raises(ConfigError, match="is no dead letter in dead: name it as dead-0@4"):
        Skipped.of("dead", [name])


@pytest.mark.parametrize("name", ["dead-0@9", "dead-1@0", "odrers"])
def test_resend_sends_nothing_if_a_dead_letter_to_skip_does_not_exist(name: str) -> None:
    log = Log(letter(0), letter(1, "others"))
    with pytest.raises(ConfigError, match=f"^Nothing that waits is {name}, .* Nothing is sent"):
        resend_of(log, name, "dead-0@0").survey()
    assert resend_of(log, "dead-0@0", "others").survey().skipped == 2


def test_dead_letter_that_was_skipped_before_may_be_skipped_again() -> None:
    """A resend may be requested again after its worker has died."""
    survey = resend_of(Log(letter(0), letter(1), passed=1), "dead-0@00").survey()
    assert (survey.total, survey.skipped) == (1, 0)


def test_topic_with_dead_letters_skipped_before_may_be_skipped_again() -> None:
    log = Log(letter(0, "others"), letter(1), passed=1)
    survey = resend_of(log, "others").survey()
    assert (survey.total, survey.skipped) == (1, 0)
    with pytest.raises(ConfigError, match=r"^Nothing that waits is odrers,"):
        resend_of(log, "others", "odrers").survey()


def test_cancelled_resend_fences_no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was frozen would fence its successor, which sends the same dead letters."""

    def opened(*_: object) -> None:
        raise AssertionError("the id would be taken")

    monkeypatch.setattr(resend_module, "TransactionalWriter", opened)
    assert resend_of(Log(letter(0)), is_wanted=lambda: False).send({}) == 0


def test_cancelled_resend_stays_cancelled() -> None:
    """Reads were cut short while it was cancelled, so it would finish with dead letters left."""
    answers = iter([True, False, True, True])
    wanted = _Wanted(lambda _: next(answers), "c")
    assert [wanted() for _ in range(3)] == [True, False, False]


def test_resend_refuses_a_topic_that_the_connector_does_not_read() -> None:
    """If the group's offsets are set back after the survey, more dead letters are sent than it counted."""
    own: Any = resend_of(Log(letter(0, "others" * 100)), reads=lambda topic: topic == "orders")
    [waiting] = own._waiting({})
    with pytest.raises(ConfigError, match=r"^dead-0@0 came from topic (others){41}oth…, which c does not read"):
        own._send(None, waiting, [])


def test_resend_names_a_dead_letter_without_an_origin() -> None:
    nowhere = letter(1)._replace(headers=letter(1).headers[:1] + letter(1).headers[3:])
    log = Log(letter(0), nowhere, letter(2))
    with pytest.raises(ConfigError, match=r"^1 dead letters of c .* \(dead-0@1\)\. Nothing is sent.*--skip dead-0@1"):
        resend_of(log, own_topic="again").survey()
    for name, skipped in (("dead-0@1", 1), ("orders", 3)):
        assert resend_of(log, name).survey().skipped == skipped
    own = resend_of(log, own_topic="again")
    waiting = own._mine(nowhere, Handled(0))
    assert waiting is not None
    writer: Any = None
    with pytest.raises(ConfigError, match=r"^Dead letter dead-0@1 cannot be resent"):
        own._send(writer, waiting, [])


class Fenced:
    """The work of a resend that another one ends."""

    connector = "c"

    def run(self, *_: Any) -> bool:
        raise FencedError("a newer producer has taken over")


def test_fenced_resend_reports_an_error_and_not_success() -> None:
    """The other resend may belong to a second Connect cluster with a connector of the same name."""
    own, work = Resends(lambda _: True), Fenced()
    own.begin(work)  # type: ignore[arg-type]
    error = eventually(lambda: own.progress("c").error)
    assert "another Connect cluster on this Kafka. Ask for this resend again" in error


def test_invalid_origin_topics_are_not_looked_up_and_are_shortened() -> None:
    """Any producer that can write to the topic can put anything into headers."""
    names = ["x" * 5_000, "no topic!", "..", *(f"gone-{n}" for n in range(50))]
    survey = resend_of(Log(*(letter(n, name) for n, name in enumerate(names)))).survey()
    asked: list[str] = []
    with pytest.raises(ConfigError, match=r"1 of topic [.][.], which does not exist") as raised:
        survey.ensure_have_somewhere_to_go("c", lambda name: asked.append(name))
    assert sorted(asked) == sorted(names[3:])
    assert len(str(raised.value)) < 5_000
