"""Two clusters, their records, and the only verdict on a mirror: the target equals the committed source."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, Self

from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.testing import eventually
from fencepost.testing.verdict import Verdict, judge
from support.mirror.log_copy import Content, LogCopy, Logs, Place
from support.mirror.workload import Given

_NAMED = 5


@dataclass(frozen=True)
class Naming:
    """The names of a flow's topics under the default policy: topics that begin with `prefix` are mirrored."""

    prefix: str
    source: str = "source"
    target: str = "target"
    has_syncs_at_target: bool = True

    @property
    def syncs(self) -> str:
        """The topic of offset syncs, which bears the alias of the cluster that it is not in."""
        return f"mm2-offset-syncs.{self.source if self.has_syncs_at_target else self.target}.internal"

    def remote(self, topic: str) -> str:
        return f"{self.source}.{topic}"

    def is_mirrored(self, topic: str) -> bool:
        return topic.startswith(self.prefix)

    def is_remote(self, topic: str) -> bool:
        return topic.startswith(self.remote(self.prefix))


@dataclass(frozen=True)
class MirrorVerdict:
    """What went wrong with a mirror; nothing did if `is_clean`.

    `missing` are partitions of the source that the target has not. `wrong_syncs` say what is not so, or go back.
    `unsynced` are partitions whose last record no offset sync tells of, where there is to be one for each transaction.
    """

    records: Verdict
    syncs: int
    missing: tuple[Place, ...] = ()
    wrong_syncs: tuple[str, ...] = ()
    unsynced: tuple[Place, ...] = ()

    @property
    def is_clean(self) -> bool:
        return self.records.is_clean and not (self.missing or self.wrong_syncs or self.unsynced)

    def __str__(self) -> str:
        lines = [f"{self.records}; {self.syncs:,} offset syncs"]
        for name in ("missing", "wrong_syncs", "unsynced"):
            found = getattr(self, name)
            if found:
                more = ", ..." if len(found) > _NAMED else ""
                lines.append(f"  {len(found):,} {name}: {', '.join(map(str, found[:_NAMED]))}{more}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Copies:
    """The records that were read of both clusters. `once` has every record that the source had before compaction."""

    source: Logs
    once: Logs
    target: Logs
    syncs: Logs


def judge_mirror(naming: Naming, given: Given, copies: Copies, *, is_each_synced: bool) -> MirrorVerdict:
    """Compare a target with what the workload gave and the source still holds.

    What the source has compacted away since may be at the target or not, where it was once: it was committed, whether
    or not the reader of the source came by in time, or that has seen it. With `is_each_synced` there is a sync for
    the last record of each partition.
    """
    remote = {place: copies.target.get((naming.remote(place[0]), place[1])) for place in copies.source}
    expected = {place: _expected(given, place, copies, remote[place] or {}) for place in copies.source}
    seen = [(place, record) for place, found in remote.items() for record in (found or {}).values()]
    syncs = _decoded(copies.syncs)
    latest = {(s.topic_partition.topic, s.topic_partition.partition): s.downstream_offset for s in syncs}
    unsynced = [p for p, found in remote.items() if is_each_synced and found and latest.get(p) != max(found)]
    return MirrorVerdict(
        judge(expected, seen),
        len(syncs),
        tuple(place for place, found in remote.items() if found is None),
        tuple(_wrong(syncs, copies, remote)),
        tuple(unsynced),
    )


def _expected(given: Given, place: Place, copies: Copies, remote: Mapping[int, Content]) -> list[Content]:
    now, once = set(copies.source[place].values()), set(copies.once.get(place, {}).values())
    passed = set(remote.values()) & (once | given.committed.get(place, set()))
    return [record for record in given.records.get(place, ()) if record in now or record in passed]


def _decoded(logs: Logs) -> list[OffsetSync]:
    return [OffsetSync.decode(record.key, record.value) for found in logs.values() for record in found.values()]


def _wrong(syncs: list[OffsetSync], copies: Copies, remote: Mapping[Place, Mapping[int, Content] | None]) -> list[str]:
    """Say of each sync that is not exact, or goes back, what it says and what is so."""
    wrong = []
    last: dict[Place, OffsetSync] = {}
    for sync in syncs:
        place = (sync.topic_partition.topic, sync.topic_partition.partition)
        if place not in remote:
            continue  # MirrorMaker's heartbeats
        source = {**copies.once.get(place, {}), **copies.source[place]}.get(sync.upstream_offset)
        target = (remote[place] or {}).get(sync.downstream_offset)
        if source is None or source != target:
            wrong.append(f"{sync}: {source} is not {target}")
        before = last.get(place)
        if before is not None and not (
            before.upstream_offset < sync.upstream_offset and before.downstream_offset < sync.downstream_offset
        ):
            wrong.append(f"{sync} comes after {before}")
        last[place] = sync
    return wrong


class Reached(Protocol):
    """A cluster that runs: of one broker, or of several."""

    @property
    def bootstrap_servers(self) -> str: ...


class TwoClusters:
    """Two running clusters, and readers of a flow from one to the other; a context manager.

    The readers see everything from the beginning on, while it happens.
    """

    def __init__(self, naming: Naming, source: Reached, target: Reached) -> None:
        self.naming = naming
        self.source = source
        self.target = target
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.at_source = stack.enter_context(self._copy_of_source())
            self.at_target = stack.enter_context(self._copy_of_target())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def await_compacted(self, given: Given, topic: str) -> None:
        """Wait until the source has fewer records of a topic than it was given."""
        count = sum(len(records) for place, records in given.records.items() if place[0] == topic)

        def is_compacted() -> bool:
            with LogCopy(self.source.bootstrap_servers, lambda name: name == topic) as copy:
                return sum(map(len, copy.catch_up().values())) < count

        eventually(is_compacted, within_s=120)

    def behind(self, front: Mapping[Place, int]) -> dict[Place, int]:
        """Return where the target has no record with so great a number yet, and the greatest that it has."""
        self.at_source.behind({})  # its reader lives
        return self.at_target.behind(self._remote(front))

    def await_mirrored(self, front: Mapping[Place, int], within_s: float) -> None:
        """Wait until the target has a record with so great a number in each of these partitions of the source."""
        self.at_target.await_numbers(self._remote(front), within_s)

    def _remote(self, front: Mapping[Place, int]) -> dict[Place, int]:
        return {(self.naming.remote(topic), partition): number for (topic, partition), number in front.items()}

    def verdicts(self, given: Given, *, is_each_synced: bool = True) -> dict[str, MirrorVerdict]:
        """Return the verdict by what was watched, and by readers that come now, when nothing is written any more."""
        found = {}
        with self._copy_of_source() as source, self._copy_of_target() as target, self._copy_of_syncs() as syncs:
            now, told = source.catch_up(), syncs.catch_up()
            once = self.at_source.catch_up()
            for how, seen in (("watched", self.at_target.catch_up()), ("read afterwards", target.catch_up())):
                copies = Copies(now, once, seen, told)
                found[how] = judge_mirror(self.naming, given, copies, is_each_synced=is_each_synced)
        return found

    def _copy_of_source(self) -> LogCopy:
        return LogCopy(self.source.bootstrap_servers, self.naming.is_mirrored)

    def _copy_of_target(self) -> LogCopy:
        return LogCopy(self.target.bootstrap_servers, self.naming.is_remote)

    def _copy_of_syncs(self) -> LogCopy:
        cluster = self.target if self.naming.has_syncs_at_target else self.source
        return LogCopy(cluster.bootstrap_servers, lambda topic: topic == self.naming.syncs)
