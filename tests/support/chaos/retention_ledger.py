"""What a test has committed, and who read what when: held against every record that gives something up (E9).

Moments are offsets of the config topic. What was done before a moment stands in front of it; what the topic holds from
it on was written later.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from fencepost.config.reference import RawConfig
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.storage.fold import apply
from fencepost.storage.records import RETENTION
from fencepost.storage.snapshot import SnapshotBuilder

_LONG_AFTER = 1 << 60


@dataclass(frozen=True)
class Life:
    """One topic of a name; another one of that name has another id."""

    topic: str
    id: str


@dataclass
class _Line:
    """The highest possible position of a group, by moments that only grow."""

    bounds: list[tuple[int, int]] = field(default_factory=list)

    def at(self, moment: int) -> int:
        return next((bound for since, bound in reversed(self.bounds) if since <= moment), 0)


@dataclass
class Presence:
    """Whatever keeps a topic from going beyond an offset, for as long as it is there; by partition, or all of them."""

    name: str
    life: Life
    since: int
    bounds: dict[int, int] | None = None
    until: int = _LONG_AFTER

    def forbids(self, partition: int, until: int, moment: int) -> bool:
        if not self.since <= moment < self.until:
            return False
        return self.bounds is None or until > self.bounds.get(partition, until)


class Ledger:
    """Follows the config topic, and raises AssertionError for a record that gives up what it must not.

    `unbound` are sinks that commit by themselves: what they were given is looked at otherwise.
    """

    def __init__(self, conf: dict[str, str], topic: str) -> None:
        self._reader = LogReader(conf, topic, is_single=True)
        self._builder = SnapshotBuilder()
        self._lines: defaultdict[tuple[str, Life, int], _Line] = defaultdict(_Line)
        self._presences: list[Presence] = []
        self.given_up: defaultdict[Life, dict[int, int]] = defaultdict(dict)
        self.unbound: set[str] = set()
        self.count = 0
        """How often something was given up."""

    def now(self) -> int:
        """Return the moment."""
        return self._reader.ends(30).get(0, 0)

    # what the test does

    def will_stand(self, group: str, life: Life, partition: int, offset: int) -> None:
        """Note, before it is done, that a group commits."""
        self._lines[group, life, partition].bounds.append((self.now(), offset))

    stands = will_stand
    """Note, after it was done, that a group was moved back."""

    def at(self, group: str, life: Life, partition: int) -> int:
        return self._lines[group, life, partition].at(_LONG_AFTER)

    def comes(self, name: str, life: Life, bounds: dict[int, int] | None = None) -> Presence:
        """Note that something is there: a round has begun and ended since."""
        presence = Presence(name, life, self.now(), bounds)
        self._presences.append(presence)
        return presence

    def goes(self, presence: Presence) -> None:
        """Note, before it is done, that it goes."""
        presence.until = self.now()

    # the verdict

    def judge(self) -> None:
        """Read on, and look at each record."""
        self._reader.read_to_end(60, self._take)

    def judge_start(self, life: Life, starts: list[int]) -> None:
        """Look at where logs begin, as they did before the last `judge`."""
        for partition, start in enumerate(starts):
            most = self.given_up[life].get(partition, 0)
            assert start <= most, f"{life.topic}-{partition} begins at {start}, and {most} was given up"

    def _take(self, record: LogRecord) -> None:
        apply(self._builder, record.offset, record.key or b"", record.value)
        name = (record.key or b"").decode()
        if not name.startswith(RETENTION):
            return
        known = self._builder.freeze().retention.get(name.removeprefix(RETENTION))
        if known is None:
            return
        life = Life(name.removeprefix(RETENTION), known.topic_id)
        before = self.given_up[life]
        for partition, until in known.deleted.items():
            if until > before.get(partition, 0):
                self.count += 1
                problems = list(self._problems(life, partition, until, record.offset))
                assert not problems, f"at {record.offset} {life}-{partition} is given up before {until}: {problems}"
                before[partition] = until

    def _problems(self, life: Life, partition: int, until: int, moment: int) -> Iterator[str]:
        for sink, config in self._builder.freeze().connectors.items():
            if sink in self.unbound or not _covers(config, life.topic):
                continue
            group = config.get("consumer.override.group.id") or f"connect-{sink}"
            committed = self._lines[group, life, partition].at(moment)
            if committed < until:
                yield f"sink {sink} has committed {committed} ({self._lines[group, life, partition].bounds[-5:]})"
        for presence in self._presences:
            if presence.life == life and presence.forbids(partition, until, moment):
                yield f"{presence} is there"


def _covers(config: RawConfig, topic: str) -> bool:
    topics = (config.get("topics") or "").split(",")
    return topic in topics or bool(re.fullmatch(config.get("topics.regex") or "", topic))
