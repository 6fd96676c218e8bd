"""The only member of its group, which commits the offsets of epochs."""

import logging
import time
from collections.abc import Callable, Mapping

from fencepost.api import FencedError, RetriableError
from fencepost.kafka.read.client_fetcher import NoFetcher
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.start_positions import PositionReader
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.record import TopicPartition
from fencepost.task.channel.message import Admission
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.life.admitted import admitted
from fencepost.task.sink.epoch_plan import EpochOffsets
from fencepost.task.sink.subscription import subscription
from fencepost.worker.host.epoch.held_partitions import HeldPartitions

log = logging.getLogger(__name__)

_NOT_WHOLE_S = 30.0
_AT_ONCE = 1_000  # offsets in one commit, if they need not all be in the same one


class CutShortError(RetriableError):
    """The member has lost the epoch's partitions, or is about to; their next owner continues the epoch."""


class EpochMembership:
    """Joins when it is first polled, and again after it has left. Used by the task's thread."""

    def __init__(
        self,
        spec: TaskSpec,
        admit: Callable[[], Admission],
        positions: Callable[[], PositionReader | None],
        let_go: Callable[[], None],
    ) -> None:
        """`admit` is called before it joins. `positions` returns the reader of the group's offsets; None for the
        member's own client. `let_go` is called before partitions are granted to others."""
        self._spec = spec
        self._admit = admit
        self._positions = positions
        self.input: GroupInput | None = None
        self.held = HeldPartitions(self._committed, let_go)
        self._waits_since_s = time.monotonic()

    def poll(self, wait_s: float) -> GroupInput:
        """Return the member after polling it. If that fails, leaves the group and raises the error."""
        input_ = self.input or self._join()
        try:
            input_.poll(wait_s, 1)
        except Exception:
            self.leave()  # it may have missed changes of its partitions
            raise
        if self._spec.input.consumer_conf.get("auto.offset.reset") == "latest":
            self.commit_fresh()  # at once, even while paused: the next start would begin at a later end
        return input_

    def has_all(self, input_: GroupInput) -> bool:
        """Say whether this member has all partitions: an epoch has only one writer.

        For a while, a start that was replaced may still be another member.
        """
        if self.held.has_begun:
            self._waits_since_s = time.monotonic()
            return True
        missing = input_.partitions() - self.held.offsets.keys()
        if missing and time.monotonic() - self._waits_since_s > _NOT_WHOLE_S:
            self._waits_since_s = time.monotonic()
            log.warning(
                "task %s waits for all partitions of its topics: %s and possibly others belong to another member of "
                "group %s, in which there should be no other consumer",
                self._spec.id, "-".join(map(str, min(missing))), self._spec.input.consumer_conf.get("group.id"),
            )  # fmt: skip
        return not missing

    def commit_fresh(self) -> None:
        """Commit the starting offsets of partitions that only this member knows."""
        offsets = self.held.offsets
        fresh = {place: offsets[place] for place in self.held.fresh if place in offsets}
        places = sorted(fresh)
        for first in range(0, len(places), _AT_ONCE):
            self.commit({place: fresh[place] for place in places[first : first + _AT_ONCE]})

    def commit(self, offsets: EpochOffsets) -> None:
        """Make offsets durable, all or none. Raises CutShortError if the membership is over.

        After any failure the member leaves the group: the broker may have accepted the commit all the same, or may
        still accept it, but only from this member. What is durable is then read again.
        """
        assert self.input is not None
        try:
            done = self.input.commit([s.to_commit(place) for place, s in offsets.items()])
        except Exception as error:
            self.leave()
            if isinstance(error, FencedError):
                raise CutShortError(str(error)) from error
            raise
        if len(done) < len(offsets):
            self.leave()
            gone = "-".join(map(str, min(offsets.keys() - done.keys())))
            raise CutShortError(f"{gone} does not exist, or its coordinator does not know it yet")
        self.held.committed(offsets)

    def leave(self) -> None:
        input_, self.input = self.input, None
        if input_ is not None:
            input_.close()
        self.held.clear()

    def _join(self) -> GroupInput:
        admitted(self._admit())
        self.input = GroupInput(
            self._spec.input.consumer_conf,
            subscription(self._spec),
            self.held,
            fetcher=NoFetcher,
            positions=self._positions(),
        )
        return self.input

    def _committed(self) -> Mapping[TopicPartition, GroupOffset]:
        return {} if self.input is None else self.input.starts.committed
