"""Finds out whether a client of a group still uses the group's coordinator.

librdkafka asks the broker that it used last who coordinates a group. If that broker is cut off from the others, it
names itself for as long as that lasts: then the client has to be replaced.
"""

import logging
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from fencepost.api import FencedError
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import NO_TOPICS_AGE_S, Cluster
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.errors import AnswerError, LostError, UnsupportedError

log = logging.getLogger(__name__)

_FAILING_S, _LOOK_S, _SOON_S = 5.0, 5.0, 2.0


def coordinator_node(conf: Mapping[str, Any], group: str, timeout_s: float) -> int | None:
    """Return the node that coordinates a group, on which two brokers agree; None if that cannot be found out now.

    `conf` holds a client's settings in librdkafka's names. Addresses are not compared: a broker may have several.
    """
    try:
        with closing(Cluster(Access.of(conf), NO_TOPICS_AGE_S)) as cluster:
            found = cluster.coordinators.find_all(GROUP, [group], time.monotonic() + timeout_s)[group]
            return None if isinstance(found, AnswerError) else found
    except (AnswerError, LostError, UnsupportedError, ValueError, OSError) as error:
        log.debug("the coordinator of group %s cannot be looked up now: %r", group, error)
        return None


class CommitWatch:
    """Notices that commits fail because the group's coordinator is another broker by now."""

    def __init__(self, conf: Mapping[str, Any], group: str) -> None:
        self._conf = conf
        self._group = group
        self._coordinator: int | None = None
        self._failing_since_s: float | None = None

    def assigned(self) -> None:
        """Record who coordinates the group when it assigns partitions."""
        self._coordinator = coordinator_node(self._conf, self._group, _SOON_S)

    def committed(self) -> None:
        self._failing_since_s = None

    def failed(self) -> None:
        """Record that a commit got no answer. Raises FencedError if another client has to join instead of this one."""
        now_s = time.monotonic()
        self._failing_since_s = self._failing_since_s or now_s
        if now_s - self._failing_since_s < _FAILING_S:
            return
        now = coordinator_node(self._conf, self._group, _LOOK_S)
        if now is not None and now != self._coordinator:
            raise FencedError(f"group {self._group} is coordinated by another broker by now: {now}")
