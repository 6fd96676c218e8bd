"""Signs offsets: their metadata names their producer, and is committed in the same transaction (E20)."""

import threading
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from fencepost.kafka.group.contribution import Contribution
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.value.position import GroupOffset
from fencepost.transaction.errors import WriterFencedError
from fencepost.transaction.writer import TransactionalWriter


class Signature:
    """Adds the writer's producer to the metadata of offsets that it is about to commit. For any thread.

    The client does not expose its producer id and epoch, but the coordinator of its id reports them. They do not change
    between `open` and `close` of a writer, so they are requested once.
    """

    def __init__(self, contributors: Contributors) -> None:
        self._contributors = contributors
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[TransactionalWriter, Contribution] = WeakKeyDictionary()

    def sign(self, writer: TransactionalWriter, offsets: Sequence[GroupOffset]) -> list[GroupOffset]:
        """Return the offsets with metadata that names the writer, in addition to their own metadata.

        Raises WriterFencedError if the coordinator no longer knows the id, and what `Contributors` raises.
        """
        by = self._contribution(writer)
        return [offset._replace(metadata=by.to_metadata(offset.metadata)) for offset in offsets]

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
            raise WriterFencedError(f"the coordinator no longer knows transactional id {transactional_id}")
        return Contribution(transactional_id, found.producer_id, found.producer_epoch)
