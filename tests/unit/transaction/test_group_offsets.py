"""What becomes of a group's offsets that a writer cannot send."""

import threading

import pytest

from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.value.position import GroupOffset
from fencepost.transaction import ProduceError, TransactionalWriter
from fencepost.transaction.writer import WriterState


def test_transaction_is_retriable_when_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    writer = TransactionalWriter({"bootstrap.servers": "127.0.0.1:1"}, "x")
    writer.state = WriterState.IN_TRANSACTION
    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(ProduceError, match="can't start new thread") as told:
        writer.begin_group_offsets([GroupOffset("t", 0, 1)], memberless("g"))
    assert not told.value.is_refused
    writer.close()
