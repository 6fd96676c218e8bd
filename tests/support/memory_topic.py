"""A config topic in memory."""

from fencepost.storage.fold import apply
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder


class MemoryTopic:
    """Its next snapshot has everything that was written to it."""

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.builder.freeze()

    def write(self, *encoded: Encoded) -> ClusterSnapshot:
        for key, value in encoded:
            apply(self.builder, self.builder.offset, key, value)
        return self.snapshot
