"""Compares the topics that a connector writes to with its ledger.

Nothing is changed, and the connector may run meanwhile. The order of steps avoids false alarms:

1. Read the ledger and what offsets topics carry of it: they name the partitions.
2. Note up to where each partition is committed: what comes before that has its entry by now.
3. Read the rest of the offsets topics, and then of the ledger's topic, to which entries move. Before, wait until each
   of them has no transaction open that step 2 may have seen committed.
4. Wait, if necessary, until the records of the newest entries can be read; read the partitions, and compare.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import MissingTopicError
from fencepost.ledger.entries import ConnectorEntries, LedgerRuns
from fencepost.ledger.finding import Difference, Findings, PartitionFindings
from fencepost.ledger.log import OnPartition, await_committed, compacted, existing, read_log
from fencepost.ledger.partition_audit import LogExtent, PartitionAudit
from fencepost.record import TopicPartition

_READ, _CONFIGS = "READ", "DESCRIBE_CONFIGS"


@dataclass
class AuditReport(Findings):
    """What the audit of a ledger has found."""

    ledger: str
    entries: int
    lost_entries: list[Difference] = field(default_factory=list)

    @property
    def differences(self) -> list[Difference]:
        """Return the lost entries, and all differences of partitions."""
        return [*self.lost_entries, *super().differences]

    @property
    def has_compared(self) -> bool:
        return self.entries > 0


class Audit:
    """Reads a ledger, and the topics that it names, in one cluster."""

    def __init__(self, conf: Mapping[str, Any], ledger: str, connector: str, *, wait_s: float = 10.0) -> None:
        """`conf` is made by `range_conf`. Transactions that are open are waited for at most `wait_s`."""
        self._conf = conf
        self._wait_s = wait_s
        self._admin = Admin(conf, timeout_s=30.0)
        self._entries = ConnectorEntries(ledger, connector)
        self._gone: dict[str, str] = {}  # notes, by offsets topic
        self._closed: dict[tuple[str, Sequence[str]], str] = {}  # notes, by topic, and what it should permit

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._admin.close()

    def run(self, topics: Collection[str] = (), on_read: OnPartition | None = None) -> AuditReport:
        """Compare; only these `topics` if there are any.

        Raises MissingTopicError if there is no such ledger, CorruptBatchError, FatalError, and what `Admin` raises.
        """
        entries = self._entries
        entries.read_on(self._conf)  # 1
        self._read_carried()
        before = existing(self._admin, self._wanted(entries.runs(), topics))
        settled = self._admin.offsets.ends([*before], read_committed=True)  # 2
        open_topics = self._read_rest()  # 3
        report = AuditReport(entries.connector, entries.topic, len(entries.found), lost_entries=entries.lost())
        report.notes += self._gone.values()
        if open_topics:
            report.notes.append(
                f"a transaction is open in {' and '.join(open_topics)}, so it is not known which transactions have no "
                "entry: repeat the audit"
            )
        if entries.unreadable:
            some = f"{len(entries.unreadable)} record{'' if len(entries.unreadable) == 1 else 's'}"
            report.notes.append(
                f"{some} of the ledger cannot be read, so not all was compared, and it is not known which transactions "
                f"have no entry; the first is {entries.unreadable[0]}. If a newer Fencepost has written it, audit with "
                "that version"
            )
        if open_topics or entries.unreadable or self._has_closed_offsets:
            settled = dict.fromkeys(settled, 0)
        runs = entries.runs(are_all_there=not self._gone)
        wanted = self._wanted(runs, topics)
        report.notes += dict.fromkeys(self._closed.values())
        there = existing(self._admin, wanted)
        for place in sorted({*wanted} - {*there}):
            report.notes.append(f"{place.topic}-{place.partition} does not exist any more")
        for place, extent in self._extents(there, settled).items():
            report.partitions.append(self._audited(place, runs, extent, on_read))  # 4
        return report

    def _audited(
        self, place: TopicPartition, runs: LedgerRuns, extent: LogExtent, on_read: OnPartition | None
    ) -> PartitionFindings:
        audit = PartitionAudit(place, runs, extent)
        for records in read_log(self._conf, place, extent.start, extent.end, on_read):
            audit.add(records)
        return audit.findings()

    def _read_rest(self) -> list[str]:
        """Read the rest of the entries. Returns the topics in which a transaction stays open."""
        entries, read = self._entries, -1
        unsettled: list[str] = []
        while read < len(entries.offsets_topics):  # a start of the task that came meanwhile may name another
            read = len(entries.offsets_topics)
            readable = self._readable(entries.offsets_topics, _READ)
            unsettled = [t for t in entries.offsets_topics if t in readable and not self._await_settled(t)]
            self._read_carried()
            unsettled += [] if self._await_settled(entries.topic) else [entries.topic]
            entries.read_on(self._conf)
        return unsettled

    def _readable(self, topics: Collection[str], *operations: str) -> set[str]:
        """Return the topics that this principal may read, or that do not exist. The others are noted, and left out.

        A principal that may write to the ledger's topic could otherwise end each audit with the name of a topic.
        """
        views, refused = self._admin.topics.look_at({*topics})
        for topic, error in refused.items():
            self._closed[topic, operations] = f"{topic} is left out: {error}"
        for topic, view in views.items():
            if missing := [each for each in operations if not view.allows(each)]:
                rights = " and ".join(missing)
                why = f"the principal lacks {rights} on it (`fencepost acls` lists what is needed)"
                self._closed[topic, operations] = f"{topic} is left out: {why}"
        return {topic for topic in topics if (topic, operations) not in self._closed}

    def _wanted(self, runs: LedgerRuns, topics: Collection[str]) -> list[TopicPartition]:
        named = {place.topic for place in runs.of_place if not topics or place.topic in topics}
        readable = self._readable(named, _READ, _CONFIGS)
        return [place for place in runs.of_place if place.topic in readable]

    @property
    def _has_closed_offsets(self) -> bool:
        return any((topic, (_READ,)) in self._closed for topic in self._entries.offsets_topics)

    def _read_carried(self) -> None:
        readable = self._readable(self._entries.offsets_topics, _READ)
        for topic in filter(readable.__contains__, self._entries.offsets_topics):
            try:
                self._entries.read_carried(self._conf, topic)
            except MissingTopicError:
                self._gone[topic] = f"{topic}, which may have had entries of the ledger, does not exist any more"

    def _await_settled(self, topic: str) -> bool:
        """Wait until what a topic has now is committed or aborted. Returns whether it is.

        All partitions are waited for: entries are carried where a transaction's source offsets are, and those of a
        source partition that is new may be in any of them.
        """
        places = [TopicPartition(topic, each) for each in range(self._admin.topics.partitions(topic) or 0)]
        ends = self._admin.offsets.ends(places, read_committed=False)
        stable = await_committed(self._admin, ends, self._wait_s)
        return all(stable[place] >= end for place, end in ends.items())

    def _extents(
        self, topic_ids: Mapping[TopicPartition, str], settled: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, LogExtent]:
        """Return which part of each log to read. `topic_ids` has the partitions that exist."""
        offsets, places = self._admin.offsets, [*topic_ids]
        written = offsets.ends(places, read_committed=False)
        await_committed(self._admin, written, self._wait_s)  # what stays open is reported with its partition
        starts, ends = offsets.starts(places), offsets.ends(places, read_committed=True)
        lossy = compacted(self._admin, places)
        return {
            place: LogExtent(
                starts[place],
                settled.get(place, 0),
                ends[place],
                has_open=ends[place] < written[place],
                is_compacted=place.topic in lossy,
                topic_id=topic_id,
            )
            for place, topic_id in topic_ids.items()
        }
