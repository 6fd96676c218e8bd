"""MirrorSinkConnector: copies topics to the target, and keeps its positions there in one transaction (KIP-656)."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from fencepost.api import LOW, at_least, one_of, setting
from fencepost.builtin.mirror.schedule import Round, Rounds, WarningLog
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.sink.lost_positions import LostPositions
from fencepost.builtin.mirror.sink.offsets import MirrorOffsets
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector, MirrorSourceTask
from fencepost.builtin.mirror.source.offset_syncs import DueSyncs
from fencepost.builtin.mirror.source.position import position_of, source_partition
from fencepost.hook.mirror import OffsetsInGroup
from fencepost.kafka.setting.client_settings import admin_conf, plan_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_RENEW_EVERY_S = 3_600.0  # a broker deletes offsets of a group without members, by default after a week
_FOLLOW_FIRST_S, _FOLLOW_EVERY_S, _REFUSED_EVERY_S = 2.0, 10.0, 60.0
_ROLE = "position-admin"


class MirrorSinkTask(MirrorSourceTask):
    """Copies its share of the source's partitions; each transaction has exact syncs of its last records."""

    config: "MirrorSinkConnector"

    def start(self) -> None:
        super().start()
        self._syncs = DueSyncs(0)
        self._renewed_s = float("-inf")  # if plans change often, a task may not live for an hour
        self._followed: dict[tuple[str, int], int] = {}
        self._warnings = WarningLog(log)
        self._reported_s = float("-inf")
        # Not at once, and rarely if the commit is denied: while a commit is in progress, which then takes seconds, the
        # reader's client does not start to fetch newly assigned partitions.
        what, due_s = f"{self.config.flow}: committing in the source's group", time.monotonic() + _FOLLOW_FIRST_S
        following = Round(what, self._follow, _FOLLOW_EVERY_S, due_s)
        self._opened.enter_context(closing(Rounds(f"follow {self.config.flow}", [following]))).start()

    def _positions(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogPosition | None]:
        positions = dict(super()._positions(places))
        missing = [place for place, position in positions.items() if position is None]
        if missing:
            own, name = self.config, self._name
            lost = LostPositions(
                own.held(name),
                own.offset_syncs_topic() if own.emit_offset_syncs else None,  # outdated ones would take it back
                self._admin_conf(FlowEnd.SOURCE),
                self._admin_conf(FlowEnd.TARGET),
            )
            is_refused = own.on_position_loss == "fail"
            positions |= lost.restored(lost.among(missing), name, is_refused=is_refused)
        return positions

    def _reader_conf(self, settings: Mapping[str, object]) -> dict[str, Any]:
        return dict(plan_conf(settings, self._group).conf)

    @property
    def _name(self) -> str:
        return str(self.config.originals.get("name", ""))

    @property
    def _group(self) -> str:
        """Return the name of the group that keeps positions at the target, and follows them at the source."""
        return self.config.held(self._name).group

    def _admin_conf(self, cluster: FlowEnd) -> dict[str, Any]:
        return dict(admin_conf(self.config.client(cluster, ClientKind.ADMIN, _ROLE)).conf)

    def _ends(self, fetched: Fetched) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Commit all positions again at an interval, to keep the group from expiring."""
        ends = super()._ends(fetched)
        if time.monotonic() - self._renewed_s < _RENEW_EVERY_S:
            return ends
        self._renewed_s = time.monotonic()
        for place, at in self._input.positions.items():
            partition = source_partition(self._alias, place)
            if position_of(self.context.offset(partition)) is not None:
                ends.append((partition, self._offset_before(place, at)))
        return ends

    def _follow(self) -> None:
        """Commit the mirror's positions at the source, for tools that show lag; this is not part of a transaction.

        It uses the consumer that reads: another client would take processor time from the records whenever it connects.
        """
        error = self._input.commit_error
        self._warnings.update({} if error is None else {f"group {self._group} of the source is not updated": error})
        if error is not None:
            self._followed.clear()
            if time.monotonic() - self._reported_s < _REFUSED_EVERY_S:
                return
        due = [committed for place in self._places if (committed := self._to_commit(place)) is not None]
        moved = [
            committed
            for committed in due
            if self._followed.get((committed.topic, committed.partition)) != committed.offset
        ]
        self._reported_s = time.monotonic()
        self._input.commit(moved)
        self._followed |= {(committed.topic, committed.partition): committed.offset for committed in moved}

    def _to_commit(self, place: TopicPartition) -> GroupOffset | None:
        """Return the mirror's position in a partition, with the metadata that the target's group has, too."""
        partition = source_partition(self._alias, place)
        offset = self.context.offset(partition)
        if position_of(offset) is None:
            return None
        return GroupOffset(*place, *self.config.held(self._name).position(partition, offset))


class MirrorSinkConnector(MirrorSourceConnector):
    """Copies topics of a source cluster to the cluster that the worker's producers write to, and keeps positions there.

    Records, positions and offset syncs are in one transaction of the target. The positions are the offsets of a group
    of the target, `connect-` and the connector's name, which has no members. The leader's plan assigns partitions to
    tasks, and a new plan fences the tasks of the old one.
    """

    task = MirrorSinkTask

    is_transactional: bool = setting(
        "transaction.producer", default=False,
        doc="Whether records and positions must be in one transaction of the target (exactly once); the worker must "
        "then have exactly.once.source.support=enabled. If false, they are so whenever the worker has that setting.",
    )  # fmt: skip
    offset_syncs_location: str = setting(
        "offset-syncs.topic.location", default="target", check=one_of("target", ignore_case=False), importance=LOW,
        doc="The cluster that has the topic of offset syncs: they are in the transactions of the records.",
    )  # fmt: skip
    offset_lag_max: int = setting(
        "offset.lag.max", default=0, check=at_least(0), importance=LOW,
        doc="Ignored: each transaction has a sync of the last record of each partition, so that positions at its end "
        "are translated exactly.",
    )  # fmt: skip
    on_position_loss: str = setting(
        "on.position.loss", default="restore", check=one_of("restore", "fail", ignore_case=False),
        doc="What happens when the target has records of a partition, but its group has lost the mirror's position: "
        "`restore` recovers it from the target's offset syncs or from the source's group; `fail` fails "
        "the task.",
    )  # fmt: skip

    def demands_exactly_once(self) -> str | None:
        return self.key_of("is_transactional") if self.is_transactional else None

    def offsets_in_group(self, name: str) -> OffsetsInGroup | None:
        return self.held(name)

    def held(self, name: str) -> MirrorOffsets:
        """Return how the positions of the connector `name` are kept in its group."""
        return MirrorOffsets(f"connect-{name}", self.selection(), self.key_of("assigned"))
