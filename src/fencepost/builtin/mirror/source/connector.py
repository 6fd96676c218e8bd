"""MirrorSourceConnector: copies topics of one Kafka cluster to another, with the names and rules of MirrorMaker 2."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from typing import Any

from fencepost.api import (
    LOW,
    Batch,
    ConfigError,
    Connector,
    ExactlyOnceSupport,
    FatalError,
    HeaderColumn,
    RetriableError,
    SourceRecord,
    setting,
)
from fencepost.builtin.mirror.formats import Alterations, OffsetSync
from fencepost.builtin.mirror.metric import MeasuredRecords, Rows
from fencepost.builtin.mirror.schedule import Round, Rounds
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.filters import PropertySelection, TopicSelection
from fencepost.builtin.mirror.setting.mirror_settings import (
    ReplicationSettings,
    SourceClusterSettings,
    TargetClusterSettings,
)
from fencepost.builtin.mirror.source.position import (
    DueSyncs,
    GapSettings,
    OffsetColumn,
    SyncWriter,
    as_record,
    check_altered,
    gap_error,
    gap_record,
    last_of,
    place_of,
    position_of,
    source_offset,
    source_partition,
    sync_of,
)
from fencepost.builtin.mirror.source.remote_topics import (
    ConfigRule,
    RemoteTopics,
    Selection,
    as_text,
    divided,
    from_text,
)
from fencepost.hook.mirror import MirrorConnector, MirrorTask, Sent
from fencepost.kafka.read.plan_input import PlanInput
from fencepost.kafka.read.plan_reader import PlanReader
from fencepost.kafka.setting.batch_settings import lacking_to_read
from fencepost.kafka.setting.client_settings import begins_at, isolation_level, most_records, plan_conf, producer_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import LogPosition
from fencepost.kafka.value.whole import PolledBatches, WholeFetched
from fencepost.record import Repeated, Runs, TopicPartition

log = logging.getLogger(__name__)

_ROLE = "replication-admin"

_STEP_S = 0.1  # a consumer that waits cannot be woken, so a stop waits for this long
_READER_ROLE = "replication-consumer"
_MOST = 5_000  # unless the user sets it: each poll is a transaction
_MOST_IN_BATCHES = 1 << 31  # no limit: the size of a broker's answer is limited anyway


class MirrorSourceTask(MirrorTask):
    """Reads the partitions of its plan from their positions, and returns their records unchanged."""

    config: "MirrorSourceConnector"
    polls_late = True  # so that one transaction has everything that has arrived by then
    heeds_transaction_bytes = True
    polls_ahead = True  # what is done after a commit does not depend on later polls

    @classmethod
    def reads_batches(cls, config: "MirrorSourceConnector") -> bool:
        """Return True, unless the consumer has settings that the reader of whole batches lacks."""
        settings = config.client(FlowEnd.SOURCE, ClientKind.CONSUMER, _READER_ROLE)
        return not lacking_to_read(plan_conf(settings).conf)

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._measured = MeasuredRecords()
        self._unwritten: deque[OffsetSync] = deque()  # of records in the log whose syncs are not written yet

    def start(self) -> None:
        config = self.config
        self._alias = config.source_cluster_alias
        self._selection = config.selection()
        self._timeout_s = min(config.poll_timeout_ms / 1000, _STEP_S)
        self._committed: list[tuple[dict[str, Any], dict[str, Any]]] = []  # to be committed with the next batch
        settings = config.client(FlowEnd.SOURCE, ClientKind.CONSUMER, _READER_ROLE)
        conf = self._reader_conf(settings)
        reader = self._batch_reader(conf)
        self._most = most_records(settings) or (_MOST if reader is None else _MOST_IN_BATCHES)
        admin = self._opened.enter_context(closing(config.admin(FlowEnd.SOURCE, f"{_READER_ROLE}-admin")))
        self._places = from_text(config.assigned)
        positions = self._positions(self._places)
        input_ = PlanInput(conf, admin, positions, begins_at=begins_at(settings), reader=reader)
        self._input = self._opened.enter_context(closing(input_))
        self._syncs = DueSyncs(config.offset_lag_max)
        self._sync_writer: SyncWriter | None = None
        if config.emit_offset_syncs and config.offset_syncs_cluster() is FlowEnd.SOURCE:
            conf = producer_conf(config.client(FlowEnd.SOURCE, ClientKind.PRODUCER, "offset-syncs-producer")).conf
            writer = SyncWriter(conf, config.offset_syncs_topic())
            self._sync_writer = self._opened.enter_context(closing(writer))

    def poll(self) -> Batch | None:
        if self._input.gaps:  # the records read together with them have been returned
            self._see_to_gaps()
        fetched = self._input.poll(self._timeout_s, self._most, self.context.transaction_bytes)
        ends = [*self._ends(fetched), *self._committed]
        self._committed = []
        return self._batch(fetched, ends) if len(fetched) or ends else None

    def closing(self, sent: Sequence[Sent]) -> Sequence[SourceRecord]:
        """Commit syncs with the records if their topic is at the target; else keep them until `commit`."""
        self._measured.flushed((place_of(one.partition), last_of(one.offset or {})) for one in sent)
        if not self.config.emit_offset_syncs:
            return ()
        due = self._syncs.among(map(sync_of, sent))
        if self._sync_writer is None:
            return [as_record(sync, self.config.offset_syncs_topic()) for sync in due]
        self._unwritten.extend(due)
        return ()

    def delivered(self, sent: Sequence[Sent]) -> Sequence[SourceRecord]:
        records = self.closing(sent)
        self._write_syncs()
        return records

    def commit(self) -> None:
        self._measured.committed()
        self._write_syncs()

    def _write_syncs(self) -> None:
        if self._sync_writer is not None and self._unwritten:
            count = len(self._unwritten)  # more may be added meanwhile
            self._sync_writer.write([self._unwritten.popleft() for _ in range(count)])

    def stop(self) -> None:
        self._opened.close()

    def figures(self) -> Rows:
        config = self.config
        return self._measured.rows(config.source_cluster_alias, config.target_cluster_alias, config.policy())

    def _reader_conf(self, settings: Mapping[str, object]) -> dict[str, Any]:
        return dict(plan_conf(settings).conf)

    def _batch_reader(self, conf: Mapping[str, Any]) -> PlanReader | None:
        """Return the reader of whole batches if they can be written unchanged; else log why not, and return None."""
        refusal = "; ".join(f"{key}: {why}" for key, why in lacking_to_read(conf).items())
        refusal = refusal or self.context.batches_refusal or ""
        if refusal:
            log.info("%s copies record by record, not whole batches: %s", self.config.flow, refusal)
            return None
        log.info("%s copies whole batches", self.config.flow)
        from fencepost.kafka.read.batch_reader import BatchReader  # Arrow, for those who use it

        return BatchReader(conf)

    def _positions(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogPosition | None]:
        """Return where to continue; None for partitions of which nothing was mirrored yet."""
        return {place: position_of(self.context.offset(source_partition(self._alias, place))) for place in places}

    def _see_to_gaps(self) -> None:
        gaps = list(self._input.gaps.values())
        if self.config.on_gap == "fail":
            raise gap_error(gaps, str(self.config.originals.get("name", "")))
        for gap in gaps:
            log.error(
                "%s continues at offset %d after a gap (on.source.gap=record): %s",
                self.config.flow,
                gap.next_offset,
                gap,
            )
            self._input.go_on(gap.place, gap.next_offset)
            self._measured.skipped(gap)
            self._committed.append(gap_record(self._alias, gap, time.time_ns() // 1_000_000))

    def _ends(self, fetched: Fetched) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [
            (source_partition(self._alias, place), self._offset_before(place, end))
            for place, end in fetched.ends.items()
        ]

    def _offset_before(self, place: TopicPartition, position: int) -> dict[str, Any]:
        return source_offset(position - 1, self._input.topic_id(place.topic), self._input.epoch(place))

    def _batch(self, fetched: Fetched, ends: list[tuple[dict[str, Any], dict[str, Any]]]) -> Batch:
        places, counts = _runs(fetched)
        self._measured.read(places, counts, fetched)
        batch = partial(PolledBatches, batches=fetched.batches) if isinstance(fetched, WholeFetched) else Batch
        return batch(
            Runs([self._selection.remote_topic(place.topic) for place in places], counts),
            fetched.values,
            Runs([source_partition(self._alias, place) for place in places], counts),
            OffsetColumn(
                fetched.offsets,
                Runs([self._input.topic_id(place.topic) for place in places], counts),
                Runs([self._input.epoch(place) for place in places], counts),
            ),
            keys=fetched.keys,
            kafka_partitions=Runs([place.partition for place in places], counts),
            timestamps=fetched.timestamps,
            headers=None if fetched.headers is None else HeaderColumn(fetched.headers),
            ends=ends,
        )


def _runs(fetched: Fetched) -> tuple[list[TopicPartition], list[int]]:
    """Return the partitions of consecutive records, and the number of records of each run."""
    if isinstance(fetched.places, Repeated):
        return [fetched.places.value], [len(fetched)]
    if isinstance(fetched.places, Runs):
        return list(fetched.places.values), list(fetched.places.counts)
    runs = [(place, len(list(records))) for place, records in groupby(fetched.places)]
    return [place for place, _ in runs], [count for _, count in runs]


class MirrorSourceConnector(
    TopicSelection,
    PropertySelection,
    GapSettings,
    ReplicationSettings,
    SourceClusterSettings,
    TargetClusterSettings,
    MirrorConnector,
):
    """Copies topics of a source cluster to the cluster that the worker's producers write to.

    The source partition is `{"cluster": alias, "topic": topic, "partition": number}`, the source offset
    `{"offset": the last one copied}` with the id of the topic.
    """

    task = MirrorSourceTask

    assigned: list[str] = setting(
        "task.assigned.partitions", default=[], importance=LOW,
        doc="The partitions of a task, as `topic-0`. Set by the connector.",
    )  # fmt: skip

    def selection(self) -> Selection:
        """Return which topics are mirrored, and their names at the target."""
        return Selection(
            self.policy(),
            self.source_cluster_alias,
            self.target_cluster_alias,
            self.topic_filter().takes,
            with_heartbeats=self.heartbeats_replication_enabled,
        )

    def start(self) -> None:
        self._opened = ExitStack()
        self._plan: list[TopicPartition] | None = None  # None until both clusters have answered
        if not self.is_enabled:
            log.info("%s is disabled (enabled=false): nothing is mirrored", self.flow)
            return
        source, target = (self._opened.enter_context(closing(self.admin(end, _ROLE))) for end in FlowEnd)
        rule = ConfigRule(self.property_filter(), self.takes_source_defaults)
        self._topics = RemoteTopics(source, target, self.selection(), rule, self.replication_factor)
        self._clusters = (source, target)
        self._opened.enter_context(closing(Rounds(f"mirror {self.flow}", self._rounds()))).start()

    def stop(self) -> None:
        self._opened.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        if not self.is_enabled:
            return []
        if self._plan is None:
            raise RetriableError(f"{self.flow}: the topics of both clusters are not known yet")
        own = super().task_configs(1)[0]
        key = self.key_of("assigned")
        return [{**own, key: as_text(partitions)} for partitions in divided(self._plan, max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        """Say whether the source is read committed; if not, records of aborted transactions would be mirrored, too."""
        is_committed = isolation_level(self.client(FlowEnd.SOURCE, ClientKind.CONSUMER, "")) == "read_committed"
        return ExactlyOnceSupport.SUPPORTED if is_committed else ExactlyOnceSupport.UNSUPPORTED

    @classmethod
    def refusal_to_follow(cls, former: type[Connector]) -> str | None:
        """Refuse the other type of mirror: its positions are elsewhere, and everything would be mirrored again."""
        is_same = not issubclass(former, MirrorSourceConnector) or former.offsets_in_group is cls.offsets_in_group
        if is_same:
            return None
        return (
            f"{cls.__name__} keeps its positions elsewhere than {former.__name__}, and would mirror everything "
            "again. Give it another name, and copy the positions while both are stopped: `fencepost mirror "
            "migrate FILE --connector NAME --into OTHER`"
        )

    def alter_offsets(self, offsets: Alterations) -> bool:
        """Accept positions in partitions of the source, and tombstones for anything."""
        check_altered(offsets, self.source_cluster_alias)
        return True

    def _rounds(self) -> list[Round]:
        def made(what: str, act: Callable[[], None], every_s: int) -> Round:
            return Round(f"{self.flow}: {what}", act, every_s)

        rounds = [made("looking for topics", self._refresh, self.refresh_topics_interval_s)]
        if self.sync_topic_configs_enabled:
            rounds.append(made("mirroring configs", self._topics.sync_configs, self.sync_topic_configs_interval_s))
        if self.sync_topic_acls_enabled:
            rounds.append(made("mirroring ACLs", self._topics.sync_acls, self.sync_topic_acls_interval_s))
        return rounds

    def _refresh(self) -> None:
        """Look for topics, once or at an interval. A permanent error before the first plan fails the connector."""
        if self._plan is not None and not self.refresh_topics_enabled:
            return
        before = self._plan
        try:
            if before is None:
                self._look_at_clusters()
            self._plan = self._topics.refresh()
        except (FatalError, ConfigError) as error:
            if before is not None:
                self.context.remark(str(error))
                raise
            self.context.raise_error(error)
            return
        self.context.remark(self._topics.remark())
        if self._plan != before:
            log.info("%s: %d partitions are mirrored now", self.flow, len(self._plan))
            self.context.request_task_reconfiguration()

    def _look_at_clusters(self) -> None:
        """Ensure that there are two clusters and a topic for syncs, and leave out what is closed in them."""
        source, target = (admin.cluster_id() for admin in self._clusters)
        if source == target:
            raise ConfigError(
                f"{self.key_of('source_servers')} and {self.key_of('target_servers')} belong to the same cluster, "
                f"{source}: its topics would be mirrored into itself. Set them to brokers of two clusters"
            )
        self._topics.leave_out(self.context.closed_topics(source), self.context.closed_topics(target))
        if self.emit_offset_syncs:
            admin = self._clusters[self.offset_syncs_cluster() is FlowEnd.TARGET]
            self.ensure_internal_topic(admin, self.offset_syncs_topic(), "offset_syncs_replication_factor")
