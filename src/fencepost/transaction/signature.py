"""Offsets that name their producer: in the transaction of the offsets themselves, or not at all (E20)."""

import threading
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from fencepost.kafka.group.contribution import Contribution
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.transaction.errors import WriterFencedError
from fencepost.transaction.writer import TransactionalWriter


class Signature:
    """Signs offsets in the name of the writer that is about to commit them. Any thread.

    The client does not tell which producer it is; the coordinator of its id does. A writer stays the same one from its
    `open` to its `close`, so it is asked for once.
    """

    def __init__(self, contributors: Contributors) -> None:
        self._contributors = contributors
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[TransactionalWriter, Contribution] = WeakKeyDictionary()

    def sign(self, writer: TransactionalWriter, offsets: Sequence[GroupOffset]) -> list[GroupOffset]:
        """Return the offsets with notes that name the writer, beside what was noted.

        Raises WriterFencedError where its id is not known any more, and what `Contributors` does.
        """
        by = self._contribution(writer)
        return [offset._replace(note=by.note(offset.note)) for offset in offsets]

    def _contribution(self, writer: TransactionalWriter) -> Contribution:
        with self._lock:
            known = self._known.get(writer)
            if known is None:
                known = self._known[writer] = self._asked(writer.transactional_id)
            return known

    def _asked(self, transactional_id: str) -> Contribution:
        try:
            found = self._contributors.described([transactional_id]).get(transactional_id)
        finally:
            self._contributors.close()
        if found is None:
            raise WriterFencedError(f"nobody knows of transactional id {transactional_id} any more")
        return Contribution(transactional_id, found.producer_id, found.producer_epoch)
