"""MirrorSinkConnector: copies topics to the target, where it keeps its positions, all in one transaction (KIP-656)."""

from fencepost.api import LOW, OffsetsInGroup, at_least, one_of, setting
from fencepost.mirror.held import MirrorOffsets
from fencepost.mirror.sink_task import MirrorSinkTask
from fencepost.mirror.source import MirrorSourceConnector


class MirrorSinkConnector(MirrorSourceConnector):
    """Copies topics of a source cluster to the cluster that the worker's producers write to, and stands there.

    Records, positions and offset syncs are in one transaction of the target. The positions are the offsets of a group
    of the target, `connect-` and the connector's name, which has no members: a plan of the leader says who copies what,
    and a new plan fences whoever had another.
    """

    task = MirrorSinkTask

    is_transactional: bool = setting(
        "transaction.producer", default=False,
        doc="Whether records and positions have to be in one transaction of the target (exactly once): the worker then "
        "has to have exactly.once.source.support=enabled. Without, they are wherever the worker has that.",
    )  # fmt: skip
    offset_syncs_location: str = setting(
        "offset-syncs.topic.location", default="target", check=one_of("target", ignore_case=False), importance=LOW,
        doc="The cluster that has the topic of offset syncs: they are in the transactions of the records.",
    )  # fmt: skip
    offset_lag_max: int = setting(
        "offset.lag.max", default=0, check=at_least(0), importance=LOW,
        doc="Not heeded: each transaction has the sync of its last record of each partition, so that positions on its "
        "boundary translate exactly.",
    )  # fmt: skip
    on_position_loss: str = setting(
        "on.position.loss", default="restore", check=one_of("restore", "fail", ignore_case=False),
        doc="What happens where the target has records of a partition, and its group has lost where the mirror stands: "
        "`restore` finds that again, by the offset syncs of the target or by the group of the source; `fail` fails "
        "the task.",
    )  # fmt: skip

    def demands_exactly_once(self) -> str | None:
        return self.key_of("is_transactional") if self.is_transactional else None

    def offsets_in_group(self, name: str) -> OffsetsInGroup | None:
        return self.held(name)

    def held(self, name: str) -> MirrorOffsets:
        """Return how the positions of the connector `name` stand in its group."""
        return MirrorOffsets(f"connect-{name}", self.selection(), self.key_of("assigned"))
