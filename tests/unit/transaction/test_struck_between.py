"""What a program's transactions do when their producer has to be replaced (E5)."""

from typing import Any

import pytest

from fencepost.kafka.group.memberless import memberless
from fencepost.record import TopicPartition
from fencepost.transaction import GroupTransactions, WriterOpenError
from fencepost.transaction import group_transactions as module

PLACE = TopicPartition("t", 0)


class StrikingWriter:
    """A writer that is struck whenever a test says so."""

    made: list["StrikingWriter"]
    is_refused = False

    def __init__(self, conf: Any, id_: str) -> None:
        self.is_struck = False
        self.calls: list[str] = []
        self.made.append(self)

    def open(self) -> None:
        if self.is_refused:
            raise WriterOpenError("no", is_passing=True)

    def send(self, topic: str, value: bytes | None, **fields: Any) -> None:
        self.calls.append("send")

    def commit(self, **offsets: Any) -> None:
        self.calls.append("commit")
        self.is_struck = True

    def abort(self) -> None:
        self.calls.append("abort")
        self.is_struck = True

    def close(self) -> None:
        self.calls.append("close")


class Unsigned:
    def __init__(self, contributors: Any) -> None: ...

    def sign(self, writer: Any, offsets: Any) -> Any:
        return offsets


class NoOffsets:
    def __init__(self, *_: Any) -> None: ...

    def read(self, *_: Any) -> Any:
        return {}


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> type[StrikingWriter]:
    class Writer(StrikingWriter):
        made = []

    for name, replacement in (("TransactionalWriter", Writer), ("Signature", Unsigned), ("StablePositions", NoOffsets)):
        monkeypatch.setattr(module, name, replacement, raising=False)
    return Writer


@pytest.fixture
def transactions(writers: type[StrikingWriter]) -> GroupTransactions:
    made = GroupTransactions({"bootstrap.servers": "127.0.0.1:1"}, "g", "g-a")
    made.open()
    return made


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_transaction_ends_even_if_the_next_producer_cannot_be_opened(
    writers: type[StrikingWriter], transactions: GroupTransactions, end: str
) -> None:
    transactions.send("t", b"x")
    writers.is_refused = True
    if end == "commit":
        transactions.commit({PLACE: 1}, memberless("g"))
    else:
        transactions.abort()
    with pytest.raises(WriterOpenError):
        transactions.send("t", b"y")
    assert [each.calls for each in writers.made] == [["send", end, "close"], []]


@pytest.mark.parametrize("begin", ["send", "commit", "positions"])
def test_producer_struck_between_transactions_is_replaced_before_the_next(
    writers: type[StrikingWriter], transactions: GroupTransactions, begin: str
) -> None:
    writers.made[0].is_struck = True
    if begin == "send":
        transactions.send("t", b"x")
    elif begin == "commit":
        transactions.commit({PLACE: 1}, memberless("g"))
    else:
        assert transactions.positions([PLACE], memberless("g")) == {}
    first, second = writers.made
    assert first.calls == ["close"]
    assert second.calls == ([] if begin == "positions" else [begin])
