"""MirrorSinkTask: what MirrorSourceTask does, with positions that the target keeps."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from fencepost.kafka.setting.client_settings import Kind, admin_conf, plan_conf
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.mirror.clients import Cluster
from fencepost.mirror.lost_position import LostPositions
from fencepost.mirror.offset_syncs import DueSyncs
from fencepost.mirror.position import position_of, source_partition
from fencepost.mirror.rounds import Round, Rounds
from fencepost.mirror.task import MirrorSourceTask
from fencepost.mirror.troubles import Troubles
from fencepost.record import TopicPartition

if TYPE_CHECKING:
    from fencepost.mirror.sink import MirrorSinkConnector

log = logging.getLogger(__name__)

_RENEW_EVERY_S = 3_600.0  # a broker forgets what a group without members committed, by default after a week
_FOLLOW_FIRST_S, _FOLLOW_EVERY_S, _REFUSED_EVERY_S = 2.0, 10.0, 60.0
_ROLE = "position-admin"


class MirrorSinkTask(MirrorSourceTask):
    """Copies its share of the source's partitions; each transaction tells exactly where its last records went."""

    config: "MirrorSinkConnector"

    def start(self) -> None:
        super().start()
        self._syncs = DueSyncs(0)
        self._renewed_s = float("-inf")  # a task may never live for an hour, where plans often change
        self._followed: dict[tuple[str, int], int] = {}
        self._troubles = Troubles(log)
        self._told_s = float("-inf")
        # Not at once, and rarely where the group may not be told: as long as a commit is under way, which is seconds
        # then, the client of the reader does not begin with partitions that it is given.
        what, due_s = f"{self.config.flow}: telling the source's group", time.monotonic() + _FOLLOW_FIRST_S
        following = Round(what, self._follow, _FOLLOW_EVERY_S, due_s)
        self._opened.enter_context(closing(Rounds(f"follow {self.config.flow}", [following]))).start()

    def _positions(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogPosition | None]:
        positions = dict(super()._positions(places))
        missing = [place for place, position in positions.items() if position is None]
        if missing:
            own, name = self.config, self._name
            lost = LostPositions(
                own.held(name),
                own.offset_syncs_topic() if own.emit_offset_syncs else None,  # old ones would take it back
                self._admin_conf(Cluster.SOURCE),
                self._admin_conf(Cluster.TARGET),
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
        """Return the name of the group that stands at the target, and follows at the source."""
        return self.config.held(self._name).group

    def _admin_conf(self, cluster: Cluster) -> dict[str, Any]:
        return dict(admin_conf(self.config.client(cluster, Kind.ADMIN, _ROLE)).conf)

    def _ends(self, fetched: Fetched) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Have all positions committed again now and then, as they are behind what is handed over with them."""
        ends = super()._ends(fetched)
        if time.monotonic() - self._renewed_s < _RENEW_EVERY_S:
            return ends
        self._renewed_s = time.monotonic()
        standing = ((place, at) for place, at in self._input.positions.items() if self._committed_of(place) is not None)
        return ends + [(source_partition(self._alias, place), self._offset_before(place, at)) for place, at in standing]

    def _committed_of(self, place: TopicPartition) -> LogPosition | None:
        return position_of(self.context.offset(source_partition(self._alias, place)))

    def _follow(self) -> None:
        """Commit at the source, for tools that look at lag, where the mirror stands; no transaction has part in it.

        By the consumer that reads: another client would take the interpreter from the records each time it connects.
        """
        trouble = self._input.commit_trouble
        self._troubles.are({} if trouble is None else {f"group {self._group} of the source is not told": trouble})
        if trouble is not None:
            self._followed.clear()
            if time.monotonic() - self._told_s < _REFUSED_EVERY_S:
                return
        standing = [told for place in self._places if (told := self._standing(place)) is not None]
        moved = [told for told in standing if self._followed.get((told.topic, told.partition)) != told.offset]
        self._told_s = time.monotonic()
        self._input.commit(moved)
        self._followed |= {(told.topic, told.partition): told.offset for told in moved}

    def _standing(self, place: TopicPartition) -> GroupOffset | None:
        """Return where the mirror stands in a partition, with the note that the group of the target has, too."""
        partition = source_partition(self._alias, place)
        offset = self.context.offset(partition)
        if position_of(offset) is None:
            return None
        return GroupOffset(*place, *self.config.held(self._name).position(partition, offset))
