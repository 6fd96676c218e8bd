"""One task of a DataFrame connector: a driver thread that plans splits and runs those that are its own."""

import logging
import threading
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.api import DataFrameConnector, FatalError, RecordError, RetriableError, Split
from fencepost.cluster.fencing import fence
from fencepost.config import ConfigError
from fencepost.config.connector import SourceConnectorConfig
from fencepost.kafka.errors import KafkaRequestError
from fencepost.kafka.settings import transaction_timeout_ms
from fencepost.record import partition_key
from fencepost.spark.cores import CoreLedger, CoreUse, NoCoreError
from fencepost.spark.ended import ProcessEnds
from fencepost.spark.splits import SplitFrame, SplitReader, cancel_run, is_unreadable, run_splits
from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.storage.offset_topic import encode_key
from fencepost.task.admitted import NotAdmittedError, admitted, report_of
from fencepost.task.back_off import BackOff
from fencepost.task.control import Control
from fencepost.task.counters import Counters
from fencepost.task.plugins import topics_of
from fencepost.task.spec import Admission, RunState, TaskSpec
from fencepost.transaction import lane_ids
from fencepost.worker.host.bundles import bundles
from fencepost.worker.host.forgetting import Forgetting
from fencepost.worker.host.trouble import Trouble, text_of
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.port import HostEvents

log = logging.getLogger(__name__)

_MOST_FAILURES = 5
_ROWS_OF_A_PART = 100_000
_BACK_OFF_S = 1.0
_PAUSES_S = (_BACK_OFF_S, _BACK_OFF_S, 2.0, 3.0, 4.0)
_FENCE_S = 20.0
PASSING = (RetriableError, OSError)
"""Kafka, a network or a file system that is away for a while."""


class Runtime(Protocol):
    """What is needed of `SparkRuntime`."""

    @property
    def session(self) -> Any: ...

    @property
    def is_alive(self) -> bool: ...

    def adopt_thread(self) -> None: ...


@dataclass
class Run:
    """One run of one split, or of several together. `rows` of each are known when it is committed.

    `rows_per_commit`: after how many rows it is committed in part; 0: not at all. `expired_s`: how long its transaction
    was open, where the broker has ended it for that. `error`: what passes, and the worker met for an executor.
    """

    task: "FrameTask"
    splits: tuple[Split, ...]
    forget: tuple[bytes, ...]
    rows_per_commit: int = 0
    rows: tuple[int, ...] = ()
    is_skipped: bool = False
    expired_s: float | None = None
    error: Exception | None = None


class FrameHost(Protocol):
    """What a task needs of its host."""

    events: HostEvents
    ledger: CoreLedger
    admissions: Admissions
    connector_of: Callable[[str], type[Any]]
    channel_url: str
    ends: ProcessEnds

    def add_run(self, run: Run) -> str: ...

    def remove_run(self, name: str) -> None: ...

    def copy(self, spec: TaskSpec, copies: Sequence[OffsetCopy]) -> None: ...

    def ended(self, incarnation: str) -> None: ...


class FrameTask:
    """One start of a task of a DataFrame connector: plans, and runs the splits that are its own."""

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: Runtime) -> None:
        self.spec = spec
        self.control = Control(is_paused=spec.target_state == TargetState.PAUSED.value)
        self._host = host
        self._runtime = runtime
        properties = {k: v for k, v in spec.connector_config.items() if v is not None}
        cls = host.connector_of(properties["connector.class"])
        self._connector: DataFrameConnector = cls(dict(spec.task_config))
        self._tolerates_errors = SourceConnectorConfig(properties).errors_tolerance.lower() == "all"
        self._reader = SplitReader(self._connector, properties)
        self._is_abandoned = False
        self._current: str | None = None
        self._back_off = BackOff(self.control, _PAUSES_S)
        self._trouble = Trouble()
        self._bundles_failed = 0
        self._may_be_open = True
        self._set_aside: set[Any] = set()
        self._apart: set[Any] = set()
        self._forgetting = Forgetting(spec, self.admit, lambda copies: host.copy(spec, copies))
        self._parts: dict[Any, int] = {}
        self._topics = topics_of(spec)
        self._counters = Counters()
        self.thread = threading.Thread(target=self._run, name=f"frame-{spec.id}", daemon=True)

    @property
    def topic(self) -> str:
        return self._connector.topic

    def _rows_per_commit(self, splits: Sequence[Split]) -> int:
        """Return after how many rows a split is committed in part; 0: not at all, or it would not be exact.

        It may take a Spark job to know, so never ask while one of ours has the last core.
        """
        if len(splits) > 1:
            return 0
        (split,) = splits
        wanted = self._reader.rows_max or self._parts.get(partition_key(split.partition), 0)
        return wanted if wanted and self._reader.is_exact(self._runtime.session, split) else 0

    def admit(self) -> Admission:
        return self._host.admissions.decide(
            TaskId(self.spec.connector, self.spec.task), self.spec.generation, self.spec.incarnation
        )

    def positions(self, admission: Admission, splits: Sequence[Split]) -> list[dict[str, Any] | None]:
        found = _positions(admission)
        return [found.get(partition_key(split.partition)) for split in splits]

    def is_unchanged(self, split: Split) -> bool:
        return self._connector.is_unchanged(self._runtime.session, split)

    def abandon(self) -> None:
        """End it without waiting for anything: Spark's JVM, which may stand still, is told in a thread of its own."""
        self._is_abandoned = True
        self.control.stop()
        current = self._current
        if current is not None:
            name = f"cancel-{self.spec.id}"
            threading.Thread(target=self._cancel, args=(current,), name=name, daemon=True).start()

    def _cancel(self, run: str) -> None:
        try:
            cancel_run(self._runtime, run)
        except Exception as error:  # the JVM has gone, and the run with it
            log.info("task %s: a run was not cancelled: %s", self.spec.id, error)

    def lost(self) -> None:
        """Spark has gone from under it: its thread ends by itself, and says nothing more."""
        self._is_abandoned = True
        self.control.stop()

    # the task's thread

    def _run(self) -> None:
        try:
            self._loop()
            self._report_end()
        except NotAdmittedError as error:
            self._report(RunState.ABANDONED, str(error))
        except Exception as error:
            if not self._is_abandoned:
                log.exception("task %s failed", self.spec.id)
                self._maybe_fence()
            self._report(RunState.FAILED, "".join(traceback.format_exception(error)))
        finally:
            self._host.ended(self.spec.incarnation)

    def _loop(self) -> None:
        while not self.control.is_stopping:
            if self.control.is_paused:
                self._trouble.passed()
                self._maybe_fence()
                self._report(RunState.PAUSED)
                self.control.wait_while_paused()
                continue
            try:
                self._runtime.adopt_thread()
                if self._counters.state is not RunState.RUNNING:
                    self._report(RunState.RUNNING)
                has_run = self._turn()
                if self._trouble.passed():
                    self._report(RunState.RUNNING)
                if not has_run:
                    self._back_off.passed()
                    self.control.wait(self._connector.poll_interval_ms / 1000)
            except Exception as error:
                self._turn_failed(error)

    def _turn_failed(self, error: Exception) -> None:
        """Back off before the next turn; as often as it takes, where the trouble passes by itself. Raises the rest."""
        if self.control.is_stopping:
            return
        if not self._runtime.is_alive:
            self.control.wait_for_stop(_BACK_OFF_S)  # the host hears of it too, and gives up this start
            return
        if isinstance(error, NotAdmittedError) or _is_final(error):
            raise error
        if not isinstance(error, PASSING):
            self._back_off.failed()
            if self._back_off.failures >= _MOST_FAILURES:
                raise error
        log.warning("task %s tries again: %s", self.spec.id, text_of(error))
        if self._trouble.met(error):
            self._report(self._counters.state)
        self._back_off.wait()

    def _turn(self) -> bool:
        """Plan, and run what is there. Returns whether there was anything."""
        self._maybe_fence()
        admission = admitted(self.admit())
        session = self._runtime.session
        planned = [s for s in self._connector.splits(session) if self._is_mine(s)]
        positions = _positions(admission)
        forget = self._finish_done(planned, positions)
        todo = [s for s in planned if not positions.get(partition_key(s.partition), {}).get("done")]
        todo = [s for s in todo if partition_key(s.partition) not in self._set_aside]
        self._apart.intersection_update([partition_key(s.partition) for s in todo])
        self._run_all(bundles(sorted(todo, key=lambda s: s.order), lambda s: self._may_share(s, positions)), forget)
        if forget and not todo and not self.control.should_yield:
            self._may_be_open |= not self._forgetting.try_run(forget)
        return bool(todo)

    def _may_share(self, split: Split, positions: dict[Any, Any]) -> bool:
        """Say whether a split may be committed with others: not one that is, or will be, committed in parts."""
        key = partition_key(split.partition)
        return not self._reader.rows_max and not any(key in others for others in (self._parts, self._apart, positions))

    def _maybe_fence(self) -> None:
        """End what an attempt may have left open: admission, which reads the position, would wait for its time-out."""
        if self.spec.transactional_id is None or not self._may_be_open:
            return
        try:
            fence(lane_ids(self.spec.transactional_id), lambda _: self.spec.producer_conf, _FENCE_S)
        except Exception as error:
            log.warning("task %s could not end what an earlier attempt may have left open: %s", self.spec.id, error)
            return
        self._may_be_open = False

    def _is_mine(self, split: Split) -> bool:
        """Within a task generation a split belongs to one task, so it has one transactional id."""
        return zlib.crc32(self._offset_key(split)) % self.spec.task_count == self.spec.task

    def _finish_done(self, planned: Sequence[Split], positions: dict[Any, Any]) -> tuple[bytes, ...]:
        """Repeat `finished` for what was committed before a crash; return the keys of what can be forgotten."""
        for split in planned:
            offset = positions.get(partition_key(split.partition)) or {}
            if offset.get("done"):
                self._finish(split, int(offset.get("rows", 0)))
        present = {partition_key(s.partition) for s in planned}
        done = [Split(dict(key)) for key, offset in positions.items() if key not in present and offset.get("done")]
        removed = [s for s in done if self._is_mine(s) and self._connector.is_removed(self._runtime.session, s)]
        self._forgetting.missed([self._offset_key(split) for split in removed])
        return self._forgetting.due([encode_key(self.spec.connector, dict(key)) for key in positions])

    def _finish(self, split: Split, rows: int) -> None:
        """Tell the connector; the split is removed before its offset is."""
        is_over = self._connector.finished(self._runtime.session, split, rows)
        self._forgetting.finished(self._offset_key(split), is_over=is_over)

    def _offset_key(self, split: Split) -> bytes:
        return encode_key(self.spec.connector, split.partition)

    def _run_all(self, bundled: Iterable[tuple[Split, ...]], forget: tuple[bytes, ...]) -> None:
        """Run one bundle after the other, until told otherwise; the first forgets what there is to forget.

        Returns early where what is left has to be planned again.
        """
        for splits in bundled:
            if self.control.should_yield or not self._run_splits(splits, forget):
                return
            forget = ()

    def _run_splits(self, splits: tuple[Split, ...], forget: tuple[bytes, ...]) -> bool:
        """Run splits as one job. Returns whether the plan still holds; raises what is to be tried again as it was."""
        self._topics.ensure([self.topic])
        if not self._take_core():
            return False
        run = Run(self, splits, forget)
        name = self._host.add_run(run)
        self._current = name
        try:
            run.rows_per_commit = self._rows_per_commit(splits)
            run_splits(self._runtime, self._frame(splits), self._host.channel_url, name)
        except Exception as error:
            self._host.ends.note(f"a split of task {self.spec.id}", error)
            return self._run_failed(run, run.error or error)
        finally:
            self._current = None
            self._host.remove_run(name)
            self._host.ledger.release(1, CoreUse.SPLIT)
        self._back_off.passed()
        self._bundles_failed = 0
        self._count(run)
        for split, rows in zip(splits, run.rows, strict=True):
            self._finish(split, rows)
        return True

    def _frame(self, splits: Sequence[Split]) -> SplitFrame:
        return self._reader.frame(self._runtime.session, splits)

    def _take_core(self) -> bool:
        """Take a core for the Spark job, so that slots and splits never wait for each other for ever.

        Returns False where the task is to stop or to pause instead.
        """
        logged = ""
        while not self.control.should_yield:
            try:
                self._host.ledger.take(1, CoreUse.SPLIT)
                return True
            except NoCoreError as error:
                if logged != str(error):
                    logged = str(error)
                    log.info("task %s waits: %s", self.spec.id, logged)
                self.control.wait(0.5)
        return False

    def _run_failed(self, run: Run, error: Exception) -> bool:
        """Decide what follows. Returns whether the plan still holds; raises what is to be tried again as it was."""
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
            log.info("task %s plans again, %s has changed: %s", self.spec.id, dict(split.partition), error)
            self.control.back_off(_BACK_OFF_S)
            return False
        if is_broken:
            place = dict(split.partition)
            log.error("task %s sets aside %s, meant for topic %s: %s", self.spec.id, place, self.topic, error)
            self._connector.set_aside(self._runtime.session, split, error)
            self._set_aside.add(partition_key(split.partition))
            self._counters.errors.met()
            return True
        if run.expired_s is not None and run.rows_per_commit == 0:
            self._too_large(split, run.expired_s)
            return False
        error.add_note(f"This was met with split {dict(split.partition)}, meant for topic {self.topic}")
        raise error

    def _bundle_failed(self, splits: Sequence[Split], error: Exception, *, is_of_one: bool) -> bool:
        """Have them run one by one where one of them is the cause, or may be: the second time in succession."""
        self._bundles_failed += 1
        if not is_of_one and self._bundles_failed == 1:
            raise error
        log.info("task %s runs %d splits one by one, to find which it is: %s", self.spec.id, len(splits), error)
        self._apart.update(partition_key(split.partition) for split in splits)
        return False

    def _too_large(self, split: Split, took_s: float) -> None:
        """Have a split that outlasts a transaction go in parts. Raises FatalError where a row number is no position."""
        if self._reader.is_exact(self._runtime.session, split):
            log.warning("task %s commits %s in parts: it outlasts a transaction", self.spec.id, dict(split.partition))
            self._parts[partition_key(split.partition)] = _ROWS_OF_A_PART
            return
        raise FatalError(
            f"split {dict(split.partition)} of {split.size_bytes} bytes ran for {took_s:.0f} s, longer than the "
            f"producer's transaction.timeout.ms={transaction_timeout_ms(self.spec.producer_conf)}, so it cannot be one "
            "transaction, and its rows may come in another order or number, so it cannot be committed in parts: raise "
            "producer.override.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it), or make the "
            "files smaller"
        )

    def _count(self, run: Run) -> None:
        if not run.is_skipped:
            self._counters.moved(sum(run.rows))
        self._report(self._counters.state)

    def _report_end(self) -> None:
        """Report the end. Where a transaction may have been left open, the supervisor ends it: it knows whether another
        start follows, which does that, and must not be fenced by this one."""
        if self._may_be_open and self.spec.is_exactly_once and not self._is_abandoned:
            self._host.events.lost([self.spec.incarnation], "it stopped after a run that may have left a transaction")
        self._report(RunState.STOPPED)

    def _report(self, state: RunState, trace: str | None = None) -> None:
        self._counters.state = state
        if self._is_abandoned:
            return
        if state is RunState.RUNNING:
            trace = self._trouble.trace
        topics = (self.topic,) if self._counters.records_written else ()
        report = report_of(self.spec, state, trace, self._counters.to_json(), topics)
        self._host.events.reported([report])


def _is_final(error: Exception) -> bool:
    """Say whether the task fails at once. What Kafka refuses, a cluster that is coming up may grant."""
    return isinstance(error, ConfigError | FatalError) and not isinstance(error, KafkaRequestError)


def _positions(admission: Admission) -> dict[Any, dict[str, Any]]:
    return {partition_key(p): dict(o) for p, o in admission.offsets}
