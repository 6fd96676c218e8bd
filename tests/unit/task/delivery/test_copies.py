import threading
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.client import ChannelError
from fencepost.task.delivery.copies import CopyingDelivery, OffsetCopier
from fencepost.task.delivery.delivery import Delivery, OnDelivered
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.testing import eventually
from fencepost.transaction import ProduceError

A, B = b'["c",{"p":"a"}]', b'["c",{"p":"b"}]'


class Worker:
    """The worker's topic, and what happened in which order."""

    def __init__(self) -> None:
        self.log: list[object] = []
        self.topic: dict[bytes, bytes | None] = {}
        self.error: Exception | None = None
        self.may_copy = threading.Event()
        self.may_copy.set()

    def copy(self, copies: Sequence[OffsetCopy]) -> None:
        self.may_copy.wait(60)
        if self.error is not None:
            raise self.error
        self.topic |= {one.key: one.value for one in copies}
        self.log.append(("copied", [one.value for one in copies]))


class Inner(Delivery):
    """Commits when told; what is begun ends with `end`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._has_ended: list[float] = []
        self.accepts = True

    @property
    def is_open(self) -> bool:
        return True

    def send(self, outgoing: Outgoing, on_delivered: OnDelivered | None = None) -> None: ...

    def commit(self, offsets: OffsetRecords, closing: Any = None) -> bool:
        self._worker.log.append("commit")
        return self.accepts

    def end(self, count: int = 1) -> None:
        self._has_ended += [1.0] * count

    def finished(self, *, wait: bool = False) -> Sequence[float]:
        ended, self._has_ended = self._has_ended, []
        return ended

    def abort(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def inner(worker: Worker) -> Inner:
    return Inner(worker)


@pytest.fixture
def delivery(worker: Worker, inner: Inner) -> CopyingDelivery:
    return CopyingDelivery(inner, OffsetCopier(worker.copy, "c-0"), "offsets")


def test_e7_tombstones_are_copied_before_the_commit_and_offsets_after_it(
    worker: Worker, inner: Inner, delivery: CopyingDelivery
) -> None:
    assert delivery.commit([(A, b"1"), (B, None)])
    assert worker.log == [("copied", [None]), "commit"]
    assert delivery.finished() == []
    inner.end()
    assert delivery.finished() == [1.0]
    eventually(lambda: worker.topic == {A: b"1", B: None}, within_s=60)


def test_e7_transaction_does_not_commit_when_its_tombstones_are_not_copied(
    worker: Worker, delivery: CopyingDelivery
) -> None:
    worker.error = ChannelError("gone")
    with pytest.raises(ProduceError, match="gone"):
        delivery.commit([(B, None)])
    assert "commit" not in worker.log


def test_e7_copy_of_an_earlier_commit_never_follows_a_tombstone(
    worker: Worker, inner: Inner, delivery: CopyingDelivery
) -> None:
    delivery.commit([(A, b"1")])
    delivery.commit([(A, None), (B, b"2")])
    inner.end(2)
    delivery.finished()
    eventually(lambda: B in worker.topic, within_s=60)
    assert worker.topic == {A: None, B: b"2"}


def test_e7_tombstone_waits_for_the_copy_that_is_under_way(
    worker: Worker, inner: Inner, delivery: CopyingDelivery
) -> None:
    worker.may_copy.clear()
    delivery.commit([(A, b"1")])
    inner.end()
    delivery.finished()
    forgetting = threading.Thread(target=delivery.commit, args=([(A, None)],))
    forgetting.start()
    worker.may_copy.set()
    forgetting.join(60)
    assert worker.topic == {A: None}


def test_offsets_that_went_ahead_of_their_records_are_copied_too(
    worker: Worker, inner: Inner, delivery: CopyingDelivery
) -> None:
    delivery.cover([(A, b"1")])
    delivery.send(OutgoingColumns(["offsets"], [b"2"], [B]))
    delivery.send(OutgoingColumns(["data"], [b"3"], [A]))
    delivery.commit(())
    inner.end()
    delivery.finished()
    eventually(lambda: worker.topic == {A: b"1", B: b"2"}, within_s=60)


def test_offsets_of_an_aborted_transaction_are_not_copied(
    worker: Worker, inner: Inner, delivery: CopyingDelivery
) -> None:
    delivery.cover([(A, b"1")])
    delivery.abort()
    delivery.commit([(B, b"2")])
    inner.end()
    delivery.finished()
    eventually(lambda: worker.topic == {B: b"2"}, within_s=60)


def test_delayed_commit_is_copied_once_made(worker: Worker, inner: Inner, delivery: CopyingDelivery) -> None:
    inner.accepts = False
    assert not delivery.commit([(A, b"1")])
    inner.accepts = True
    assert delivery.commit([(A, b"1")])
    inner.end()
    delivery.finished()
    eventually(lambda: worker.topic == {A: b"1"}, within_s=60)


def test_failed_copies_block_no_later_copies_not_even_at_the_close(worker: Worker) -> None:
    copier = OffsetCopier(worker.copy, "c-0")
    worker.error = ChannelError("gone")
    copier.put([OffsetCopy(A, b"1", 1)])
    worker.error = None
    copier.put([OffsetCopy(B, b"2", 2)])
    copier.close()
    assert worker.topic[B] == b"2"


def test_offset_copies_survive_json() -> None:
    copies = [OffsetCopy(A, b'{"n":1}', 5), OffsetCopy(B, None, 6)]
    assert [OffsetCopy.from_json(one.to_json()) for one in copies] == copies
