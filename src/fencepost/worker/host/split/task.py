"""One task of a DataFrame connector: a driver thread that plans splits and runs its own share."""

import contextlib
import logging
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.api import DataFrameConnector, FatalError, RecordError, RetriableError, Split
from fencepost.api.errors import ConnectError
from fencepost.api.source import SourcePartition
from fencepost.config import ConfigError
from fencepost.config.cluster import CLOSED, ClosedTopics
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.record import partition_key
from fencepost.spark.partition.write import FLUSH_S
from fencepost.spark.split.splits import SplitReader, is_unreadable, run_group, run_splits
from fencepost.storage.offset_topic import encode_key
from fencepost.task.channel.message import Admission, RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.copies import Copy, OffsetCopier, copier_of, with_copies
from fencepost.task.delivery.delivery import topics_of
from fencepost.task.delivery.lanes import open_delivery
from fencepost.task.start.run import Counters
from fencepost.task.start.runner import admitted
from fencepost.task.tracing.tracing import FrameWork
from fencepost.transaction import ProduceError, fence, lane_ids
from fencepost.worker.host.frame.task import BACK_OFF_S, PASSING, FrameHost, FrameTask
from fencepost.worker.host.split.channel import Run, Written

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

_MOST_BYTES = 64 << 20
"""How much splits that share a job have together: as much as an ordinary file, which Spark plans in about a second."""
_MOST_SPLITS = 64
log = logging.getLogger(__name__)


def bundles(splits: Iterable[Split], may_share: Callable[[Split], bool]) -> Iterator[tuple[Split, ...]]:
    """Yield the splits in their order, combining neighbours of known size that may share.

    A split that is empty, or larger than a bundle may be, is yielded alone.
    """
    bundle: list[Split] = []
    size = 0
    for split in splits:
        own = split.size_bytes or 0
        is_small = 0 < own < _MOST_BYTES and may_share(split)
        if bundle and (not is_small or size + own > _MOST_BYTES or len(bundle) == _MOST_SPLITS):
            yield tuple(bundle)
            bundle, size = [], 0
        if is_small:
            bundle.append(split)
            size += own
        else:
            yield (split,)
    if bundle:
        yield tuple(bundle)


class Forgetting:
    """Removes the source offsets of splits that are over (KIP-910), if the task or its connector saw them removed.

    A split whose offset is removed would be read again if it were planned again, so its offset goes after its file
    (docs/decisions/0018). Usually the tombstones go with the next split; `try_run` writes them when there is none.
    That a split is missing proves nothing, as a whole directory may be missing for a while.
    """

    def __init__(self, spec: TaskSpec, admit: Callable[[], Admission], copy: Copy | None = None) -> None:
        """`copy` lets the worker write copies, if the connector has an offsets topic of its own."""
        self._spec = spec
        self._copier = copier_of(spec, copy)
        self._admit = admit
        self._over: set[bytes] = set()
        self._missed: frozenset[bytes] = frozenset()
        self._removed: frozenset[bytes] = frozenset()
        self._logged = ""

    def finished(self, key: bytes, *, is_over: bool) -> None:
        """Record, by offset key, whether a finished split can never be planned again: its file is removed."""
        if is_over:
            self._over.add(key)
        else:
            self._over.discard(key)

    def missed(self, keys: Collection[bytes]) -> None:
        """Record the offset keys of all splits reported as removed now. Two reports in a row make it certain."""
        missing = frozenset(keys)
        self._missed, self._removed = missing, missing & self._missed

    def due(self, stored: Collection[bytes]) -> tuple[bytes, ...]:
        """Return which of the `stored` offset keys can be removed."""
        self._over.intersection_update(stored)
        return tuple(sorted(self._over | self._removed.intersection(stored)))

    def try_run(self, keys: Sequence[bytes]) -> bool:
        """Remove these offsets. Returns False if that failed, or the outcome is unknown (E6): ask `due` again."""
        try:
            write_tombstones(self._spec, keys, self._admit, self._copier)
            return True
        except ConnectError as error:
            if self._logged != str(error):
                self._logged = str(error)
                log.warning("task %s cannot remove the offsets of removed files yet: %s", self._spec.id, error)
            return False


def write_tombstones(
    spec: TaskSpec, keys: Sequence[bytes], admit: Callable[[], Admission], copier: OffsetCopier | None = None
) -> None:
    """Write tombstones under the task's transactional id (E3): init ▸ admission ▸ produce ▸ commit.

    Writes nothing if the task is not admitted. Raises what opening, writing or committing raises.
    """
    opened = open_delivery(spec.output.producer_conf, spec.output.transactional_id, spec.output.offsets_topic, FLUSH_S)
    delivery = with_copies(opened, copier, spec.output.offsets_topic)  # E7: first in the worker's topic
    try:
        if not admit().is_admitted:  # a newer start decides itself what is over
            return
        if not delivery.commit([(key, None) for key in keys]):
            raise ProduceError(f"tombstones were not acknowledged within {FLUSH_S:g} s", is_refused=False)
        delivery.finished(wait=True)
    except BaseException:
        with contextlib.suppress(Exception):  # the next holder of the id ends what is left open
            delivery.abort()
        raise
    finally:
        delivery.close()


_ROWS_OF_A_PART = 100_000
_FEWEST_ROWS = 1_000
_FENCE_S = 20.0


class SplitTask(FrameTask):
    """One start of a task of a DataFrame connector: plans, and runs its own splits."""

    _connector: DataFrameConnector

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: "SparkRuntime") -> None:
        super().__init__(host, spec, runtime)
        self._reader = SplitReader(self._connector, self._properties, is_exactly_once=spec.is_exactly_once)
        self._bundles_failed = 0
        self._may_be_open = True
        self._set_aside: set[Any] = set()
        self._apart: set[Any] = set()
        self._forgetting = Forgetting(spec, self.admit, lambda copies: host.channel.copy(spec, copies))
        self._parts: dict[Any, int] = {}
        self._topics = topics_of(spec)
        self._written: set[str] = set()
        self.counters = Counters()

    def topic_of(self, split: Split) -> str:
        """Return the topic of a split's rows. Raises ConfigError if it is closed to connectors."""
        topic = split.topic or self._connector.topic
        if split.topic is not None and ClosedTopics(self.spec.look_up.closed.writes).has(topic):
            raise ConfigError(f"Rows of {dict(split.partition)} would go to topic {topic}: {CLOSED}")
        return topic

    def _rows_per_commit(self, splits: Sequence[Split]) -> int:
        """Return after how many rows a part of a split is committed; 0: no parts, as they would not be exact.

        This may need a Spark job, so never call it while a job of this task has the last core.
        """
        if len(splits) > 1:
            return 0
        (split,) = splits
        wanted = self._reader.rows_max or self._parts.get(partition_key(split.partition), 0)
        return wanted if wanted and self._reader.is_exact(self._runtime.session, split) else 0

    def positions(self, admission: Admission, splits: Sequence[Split]) -> list[dict[str, Any] | None]:
        found = _positions(admission)
        return [_position_of(split, found.get(partition_key(split.partition))) for split in splits]

    def is_unchanged(self, split: Split) -> bool:
        return self._connector.is_unchanged(self._runtime.session, split)

    def _rest(self) -> None:
        self._back_off.passed()
        self.control.back_off(self._connector.poll_interval_ms / 1000)

    def _topics_used(self) -> Sequence[str]:
        return tuple(sorted(self._written))

    def _turn(self) -> bool:
        self._settle()
        admission = admitted(self.admit())
        session = self._runtime.session
        positions = _positions(admission)
        known = _Known(positions, self._is_mine)
        planned = [s for s in self._connector.next_splits(session, known) if self._is_mine(s.partition)]
        forget = self._finish_done(planned, positions)
        todo = [s for s in planned if s.offset is not None or not _is_done(positions, s)]
        todo = [s for s in todo if partition_key(s.partition) not in self._set_aside]
        self._apart.intersection_update([partition_key(s.partition) for s in todo])
        self._run_all(bundles(sorted(todo, key=lambda s: s.order), lambda s: self._may_share(s, positions)), forget)
        if forget and not todo and not self.control.should_yield:
            self._may_be_open |= not self._forgetting.try_run(forget)
        return bool(todo)

    def _may_share(self, split: Split, positions: dict[Any, Any]) -> bool:
        """Say whether a split may be committed with others: not if it is, or will be, committed in parts."""
        key = partition_key(split.partition)
        is_plain = split.offset is None and split.topic is None
        is_begun = any(key in others for others in (self._parts, self._apart, positions))
        return is_plain and not self._reader.rows_max and not is_begun

    def _settle(self) -> None:
        """End transactions of earlier attempts: admission, which reads the position, would wait for their timeout."""
        if self.spec.output.transactional_id is None or not self._may_be_open:
            return
        try:
            fence(lane_ids(self.spec.output.transactional_id), lambda _: self.spec.output.producer_conf, _FENCE_S)
        except Exception as error:
            log.warning("task %s cannot end what an earlier attempt may have left open: %s", self.spec.id, error)
            return
        self._may_be_open = False

    def _is_mine(self, partition: SourcePartition) -> bool:
        """Say whether splits are this task's: in a task generation each has one task, and so one transactional id."""
        return zlib.crc32(encode_key(self.spec.connector, partition)) % self.spec.task_count == self.spec.task

    def _finish_done(self, planned: Sequence[Split], positions: dict[Any, Any]) -> tuple[bytes, ...]:
        """Call `finished` again for what was committed before a crash; return the keys of what can be forgotten."""
        for split in planned:
            if split.offset is None and _is_done(positions, split):
                self._finish(split, int(positions[partition_key(split.partition)].get("rows", 0)))
        present = {partition_key(s.partition) for s in planned}
        done = [Split(dict(key)) for key, offset in positions.items() if key not in present and offset.get("done")]
        own = [s for s in done if self._is_mine(s.partition)]
        removed = [s for s in own if self._connector.is_removed(self._runtime.session, s)]
        self._forgetting.missed([self._offset_key(split) for split in removed])
        return self._forgetting.due([encode_key(self.spec.connector, dict(key)) for key in positions])

    def _finish(self, split: Split, rows: int) -> None:
        """Call the connector's `finished`; the split is removed before its offset."""
        self.control.move()
        is_over = self._connector.finished(self._runtime.session, split, rows)
        self._forgetting.finished(self._offset_key(split), is_over=is_over)

    def _offset_key(self, split: Split) -> bytes:
        return encode_key(self.spec.connector, split.partition)

    def _run_all(self, bundled: Iterable[tuple[Split, ...]], forget: tuple[bytes, ...]) -> None:
        """Run one bundle after the other, until asked to stop or pause; the first one also removes the `forget` keys.

        Returns early if the rest has to be planned again.
        """
        for splits in bundled:
            if self.control.should_yield or not self._run_splits(splits, forget):
                return
            forget = ()

    def _run_splits(self, splits: tuple[Split, ...], forget: tuple[bytes, ...]) -> bool:
        """Run splits as one job.

        Returns whether the plan still holds; raises errors after which it is retried unchanged.
        """
        self.control.move()
        topic = self.topic_of(splits[0])
        self._topics.ensure([topic])
        if not self._take_core():
            return False
        run = Run(self, splits, forget)
        name = self._jobs.run = self._host.channel.add(run)
        self._jobs.group = run_group(name)
        try:
            run.rows_per_commit = self._rows_per_commit(splits)
            with self.tracing.frame(FrameWork([topic], len(splits), is_epoch=False)) as batch:
                run.headers = tuple(batch.headers)
                run_splits(self._runtime, self._reader, splits, self._host.channel.url, name)
                batch.wrote(0 if run.written is None or run.written.is_skipped else sum(run.written.rows))
        except Exception as error:
            self.tracing.commit_failed(run.error or error)
            self._host.ends.record(f"a split of task {self.spec.id}", error)
            return self._run_failed(run, run.error or error)
        finally:
            self._jobs.group = None
            self._host.channel.remove(name)
            self._release_core()
        written = run.written
        assert written is not None  # the job has succeeded
        self.tracing.commit_begun(written.at_s - written.commit_s)
        self.tracing.committed(written.at_s)
        self._back_off.passed()
        self._bundles_failed = 0
        self._count(written, topic)
        for split, rows in zip(splits, written.rows, strict=True):
            self._finish(split, rows)
        return True

    def _run_failed(self, run: Run, error: Exception) -> bool:
        """Decide what follows a failure. Returns whether the plan still holds; raises errors that are to be retried."""
        self._may_be_open = True  # its process may have died with a transaction open
        if self.control.is_stopping or self._is_abandoned:
            return False
        if isinstance(error, PASSING):
            raise error
        is_broken = isinstance(error, RecordError) or is_unreadable(error)
        if len(run.splits) > 1:
            is_of_one = is_broken or run.expired_s is not None or isinstance(error, ConfigError)
            return self._bundle_failed(run.splits, error, is_of_one=is_of_one)
        split = run.splits[0]
        if not self.is_unchanged(split):
            log.info("task %s plans again because %s has changed: %s", self.spec.id, dict(split.partition), error)
            self.control.back_off(BACK_OFF_S)
            return False
        if is_broken and split.offset is None:  # after a step that is left out, no later one could be committed
            place = dict(split.partition)
            log.error("task %s sets aside %s, meant for topic %s: %s", self.spec.id, place, run.topic, error)
            self._connector.set_aside(self._runtime.session, split, error)
            self._set_aside.add(partition_key(split.partition))
            self.counters.errors.met()
            return True
        if run.expired_s is not None and run.rows_per_commit == 0:
            self._too_large(split, run.expired_s)
            return False
        if run.expired_s is not None and self._takes_smaller_parts(split):
            return False
        error.add_note(f"This happened with split {dict(split.partition)}, meant for topic {run.topic}")
        raise error

    def _bundle_failed(self, splits: Sequence[Split], error: Exception, *, is_of_one: bool) -> bool:
        """Run them one by one if one of them is, or may be, the cause: the latter after two failures in a row."""
        self._bundles_failed += 1
        if not is_of_one and self._bundles_failed == 1:
            raise error
        log.info("task %s runs %d splits one by one, to find the one that fails: %s", self.spec.id, len(splits), error)
        self._apart.update(partition_key(split.partition) for split in splits)
        return False

    def _takes_smaller_parts(self, split: Split) -> bool:
        """Choose smaller parts for a split whose parts still outlast a transaction.

        Returns False if they cannot shrink.
        """
        key = partition_key(split.partition)
        rows = self._parts.get(key, 0) // 10
        if rows < _FEWEST_ROWS:
            return False
        self._parts[key] = rows
        log.warning(
            "task %s commits %s every %d rows now: a part outlasted a transaction",
            self.spec.id, dict(split.partition), rows,
        )  # fmt: skip
        return True

    def _too_large(self, split: Split, took_s: float) -> None:
        """Commit a split that outlasts a transaction in parts.

        Raises FatalError if row numbers are not stable positions.
        """
        if self._reader.is_exact(self._runtime.session, split):
            log.warning("task %s commits %s in parts: it outlasts a transaction", self.spec.id, dict(split.partition))
            self._parts[partition_key(split.partition)] = _ROWS_OF_A_PART
            return
        timeout_ms = transaction_timeout_ms(self.spec.output.producer_conf)
        raise FatalError(
            f"split {dict(split.partition)} of {split.size_bytes} bytes ran for {took_s:.0f} s, longer than the "
            f"producer's transaction.timeout.ms={timeout_ms}, so it cannot be one "
            "transaction. It cannot be committed in parts either, because the order or number of its rows may vary. "
            "Raise producer.override.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it), or "
            "make the splits smaller (files with fewer rows, or a smaller split.rows.max)"
        )

    def _count(self, written: Written, topic: str) -> None:
        if not written.is_skipped:
            self.counters.moved(sum(written.rows))
            self._written.update([topic] if any(written.rows) else [])
        self._report(self.counters.state)

    def _report_end(self, state: RunState, trace: str | None) -> None:
        """Report the end.

        If a transaction may be open, the supervisor ends it. Only the supervisor knows whether another start follows,
        which would end the transaction and must not be fenced by this one.
        """
        is_stop = state is RunState.STOPPED
        if is_stop and self._may_be_open and self.spec.is_exactly_once and not self._is_abandoned:
            self._host.events.lost([self.spec.incarnation], "it stopped after a run that may have left a transaction")
        super()._report_end(state, trace)


@dataclass(frozen=True)
class _Known:
    """`Positions` of a plan."""

    found: Mapping[Any, dict[str, Any]]
    is_mine: Callable[[SourcePartition], bool]

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        return self.found.get(partition_key(partition))


def _position_of(split: Split, committed: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the position of a split, given the committed offset of its source partition.

    Raises RetriableError if a step of a sequence follows neither its predecessor nor itself.
    """
    if split.offset is None:
        return committed
    if committed == split.offset:
        return {"done": True, "rows": 0}
    if committed != split.after:
        raise RetriableError(f"{dict(split.partition)} is at {committed}, not at {split.after}: it is planned again")
    return None


def _is_done(positions: Mapping[Any, dict[str, Any]], split: Split) -> bool:
    return bool(positions.get(partition_key(split.partition), {}).get("done"))


def _positions(admission: Admission) -> dict[Any, dict[str, Any]]:
    return {partition_key(p): dict(o) for p, o in admission.offsets}
