"""What becomes of a membership whose client has met a fatal error. The client here only says so."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from fencepost.kafka.group.member import GroupMembership, ReplacedError, Term
from fencepost.testing import eventually

PLACE_LOST = KafkaError(KafkaError._FATAL, "Static consumer fenced by other consumer with same group.instance.id")


class Message:
    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def error(self) -> KafkaError:
        return self._error


class Client:
    """Owns the partition from its first poll on; the first of all clients then meets `fault`."""

    made: list["Client"] = []
    fault = KafkaError(KafkaError._FATAL, "out of order")

    def __init__(self, conf: dict[str, Any], logger: Any = None) -> None:
        self.conf = conf
        self.is_closed = False
        self.made.append(self)

    def subscribe(self, topics: list[str], *, on_assign: Callable[..., None], **_: Any) -> None:
        self.events: list[Any] = [lambda: on_assign(self, ["p"])]
        if len(self.made) == 1:
            self.events.append(lambda: Message(self.fault))

    def poll(self, _: float) -> Any:
        if self.is_closed:
            raise RuntimeError("Consumer closed")
        return self.events.pop(0)() if self.events else None

    def consumer_group_metadata(self) -> str:
        return f"of client {len(self.made)}"

    def close(self) -> None:
        self.is_closed = True

    def incremental_assign(self, _: Any) -> None: ...

    def pause(self, _: Any) -> None: ...


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    monkeypatch.setattr(Client, "made", [])
    monkeypatch.setattr("fencepost.kafka.group.member.Consumer", Client)
    monkeypatch.setattr("fencepost.kafka.group.member._REJOIN_S", 0.01)
    monkeypatch.setattr("fencepost.kafka.group.member._ANNOUNCED_S", 0.05)
    return Client


def _joined(terms: list[Term], replaced: list[ReplacedError], *, is_taken: bool = True) -> GroupMembership:
    conf = {"group.id": "g", "group.instance.id": "host:1"}
    member = GroupMembership(conf, "t", terms.append, pytest.fail, replaced.append, lambda: is_taken)
    member.start()
    return member


def test_member_joins_again_after_a_fatal_error_of_its_client(client: type[Client]) -> None:
    terms: list[Term] = []
    member = _joined(terms, [])
    eventually(lambda: len(terms) == 3, within_s=60)
    member.stop()
    assert [term.metadata for term in terms] == ["of client 1", None, "of client 2"]
    assert [each.is_closed for each in client.made] == [True, True]
    assert client.made[0].conf == client.made[1].conf


def test_member_joins_again_if_the_end_of_its_client_fails(
    client: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has forgotten what a callback raised, and is closed."""

    def close(self: Client) -> None:
        self.is_closed = True
        raise SystemError("exception <class 'str'> is not a BaseException subclass")

    monkeypatch.setattr(client, "close", close)
    terms: list[Term] = []
    member = _joined(terms, [])
    eventually(lambda: len(terms) == 3, within_s=60)
    member.stop()
    assert [term.metadata for term in terms] == ["of client 1", None, "of client 2"]


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._STATE)), SystemError("lost")])
def test_member_joins_again_if_a_callback_of_its_client_fails(
    client: type[Client], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Its group still takes it for the owner: no other assignment comes."""

    def fail() -> None:
        raise error

    begin = Client.subscribe

    def subscribe(self: Client, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if len(self.made) == 1:
            self.events[1:] = [fail]

    monkeypatch.setattr(client, "subscribe", subscribe)
    terms: list[Term] = []
    member = _joined(terms, [])
    try:
        eventually(lambda: len(terms) == 3)
    finally:
        member.stop()
    assert [term.metadata for term in terms] == ["of client 1", None, "of client 2"]
    assert [each.is_closed for each in client.made] == [True, True]


def test_member_joins_again_if_no_client_can_be_made_at_first(
    client: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Client.subscribe

    def subscribe(self: Client, *args: Any, **kwargs: Any) -> None:
        self.events = []
        if len(self.made) == 2:
            raise KafkaException(KafkaError(KafkaError._RESOLVE, "no address"))
        begin(self, *args, **kwargs)

    monkeypatch.setattr(client, "subscribe", subscribe)
    terms: list[Term] = []
    member = _joined(terms, [])
    eventually(lambda: len(terms) == 3, within_s=60)
    member.stop()
    assert [term.metadata for term in terms] == ["of client 1", None, "of client 3"]


def test_replaced_member_reports_the_loss_and_does_not_join_again(
    client: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "fault", PLACE_LOST)
    terms: list[Term] = []
    replaced: list[ReplacedError] = []
    member = _joined(terms, replaced)
    eventually(lambda: replaced, within_s=60)
    member.stop()
    assert "host:1" in str(replaced[0])
    assert "listeners" in str(replaced[0])
    assert [term.is_owner for term in terms] == [True, False]
    assert [each.is_closed for each in client.made] == [True]


def test_member_fenced_by_its_own_late_request_joins_again(
    client: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a time in which it was cut off from the broker: no other member has announced itself."""
    monkeypatch.setattr(client, "fault", PLACE_LOST)
    terms: list[Term] = []
    replaced: list[ReplacedError] = []
    member = _joined(terms, replaced, is_taken=False)
    eventually(lambda: len(terms) == 3, within_s=60)
    member.stop()
    assert [term.metadata for term in terms] == ["of client 1", None, "of client 2"]
    assert replaced == []
