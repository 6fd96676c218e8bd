"""The leader: decides, and writes the config topic. Runs in every worker, works in one.

Every logical write is in one transaction of the id `connect-cluster-<group>` that carries the group metadata captured
at the assignment that made this worker leader, so that the coordinator refuses a deposed leader (E4). Writes that wait
at the same time and are of different connectors share a transaction (docs/decisions). Order, after every election and
every re-initialisation: join, init, read to the end, decide.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencepost.cluster.assignment import Member, lost_tasks
from fencepost.cluster.command import (
    ConnectorCommand,
    LeaderCommand,
    PutTaskConfigs,
    Reassign,
    RotateSessionKey,
    independent,
    now_ms,
    other_records,
)
from fencepost.cluster.errors import BadRequestError, NotLeadingError, NotReadyError, OperationError, WriteFailedError
from fencepost.cluster.fencing import leader_transactional_id
from fencepost.cluster.left_open import PendingFences
from fencepost.kafka.group.member import Term
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.storage.config_topic import CONFIG_PARTITION
from fencepost.storage.fold import after
from fencepost.storage.ids import TaskId
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    StaleMemberError,
    TransactionalWriter,
    WriterOpenError,
    WriterTimeouts,
)

log = logging.getLogger(__name__)

_TICK_S = 1.0
_COMPANY_S = 0.02
_READ_S = 30.0
_MOST_TOGETHER = 100
_STOPPING = "The worker is shutting down"


class ConfigLog(Protocol):
    """The part of the config topic's reader that the leader needs."""

    topic: str

    @property
    def snapshot(self) -> ClusterSnapshot: ...

    def read_to_end(self, timeout_s: float) -> ClusterSnapshot: ...

    def read_past(self, offset: int, timeout_s: float) -> ClusterSnapshot: ...


class TransactionEnder(Protocol):
    """Ends open transactions of lost tasks."""

    def end(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> PendingFences:
        """Begin to end them, and return at once."""


@dataclass
class _Request:
    command: ConnectorCommand
    outcome: "Future[ClusterSnapshot]" = field(default_factory=Future)


class _Newest:
    """The offset of the last record of a transaction; the topic has one partition."""

    def __init__(self) -> None:
        self.offset = -1

    def __call__(self, error: Any, message: Any) -> None:
        if error is None:
            self.offset = message.offset()


_Commands = Sequence[LeaderCommand]
_Outcome = ClusterSnapshot | Exception


class Leader:
    """A thread that carries out commands while this worker leads. Commands that wait together are decided together.

    `submit` may be called from any thread, even before this worker has joined: the command then waits. It is refused
    with NotLeadingError if another worker leads, or none does.
    """

    def __init__(
        self,
        group_id: str,
        config_log: ConfigLog,
        producer_conf: Mapping[str, Any],
        member_urls: Callable[[], Collection[str]],
        *,
        key_algorithm: str = "HmacSHA256",
        key_ttl_ms: int = 3_600_000,
        lost_delay_ms: int = 0,
        left_open: TransactionEnder,
        abandoned_tasks: Callable[[ClusterSnapshot, Collection[str]], set[TaskId]],
    ) -> None:
        """`left_open` ends open transactions of a lost worker's tasks before they move, `lost_delay_ms` later unless it
        returns. `abandoned_tasks` returns tasks that it should have ended, and that nobody gets."""
        self._group_id = group_id
        self._id = leader_transactional_id(group_id)
        self._log = config_log
        self._conf = {**producer_conf, "delivery.report.only.error": False}  # a delivery report has the record's offset
        self._member_urls = member_urls
        self._key = (key_algorithm, key_ttl_ms)
        self._lost_delay_ms = lost_delay_ms
        self._left_open = left_open
        self._ending: PendingFences | None = None  # of lost tasks, until their worker is no longer counted
        self._abandoned_tasks = abandoned_tasks
        self._term = Term(0)
        self._has_joined = False
        self._roster: frozenset[str] = frozenset()  # who gets work; empty while that is not known
        self._found: frozenset[str] = frozenset()
        self._looked = (self._term, 0.0)  # the last look at the group: its term, and its monotonic time
        self._writer: TransactionalWriter | None = None
        self._writing_term = self._term
        self._has_read = False  # to the end, since the writer was opened
        self._is_stopping = False
        self._kept = threading.Condition()
        self._looks = (0, 0)  # begun, ended
        self._look_asked_for = 0
        self._requests: queue.Queue[_Request | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="leader", daemon=True)

    @property
    def is_leading(self) -> bool:
        return self._term.is_owner

    @property
    def term(self) -> object:
        """Return the current term. If it is the same object later, no other worker has led in between."""
        return self._term

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the current command and end; waiting commands are refused."""
        self._is_stopping = True
        self._requests.put(None)
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def on_term(self, term: Term) -> None:
        """Record a term, which each assignment of the group begins; the writer is renewed before the next decision."""
        self._term = term
        self._roster = frozenset()  # the group has changed
        self._has_joined = True
        self._requests.put(None)

    def submit(self, command: ConnectorCommand) -> "Future[ClusterSnapshot]":
        """Queue a command. The future holds the snapshot that includes its effect, or an OperationError."""
        request = _Request(command)
        if self._is_stopping:
            request.outcome.set_exception(NotReadyError(_STOPPING))
        else:
            self._requests.put(request)
        return request.outcome

    def wake(self) -> None:
        """Check soon whether the assignment has to change."""
        self._requests.put(None)

    def group_changed(self) -> None:
        """Ask the group again soon: its last answer is out of date."""
        self._roster = frozenset()
        self.wake()

    def reassign(self, timeout_s: float) -> None:
        """Wait until the assignment fits the present group, for as long as this worker leads."""
        with self._kept:
            wanted = self._look_asked_for = self._looks[0] + 1
            self._requests.put(None)
            self._kept.wait_for(lambda: self._looks[1] >= wanted or not self._term.is_owner, timeout_s)

    def _run(self) -> None:
        waiting: list[_Request] = []
        while not self._is_stopping:
            waiting += self._take_requests()
            if not self._has_joined:
                continue
            self._answer(waiting)
            waiting = []
            if self._term.is_owner and self._requests.empty():
                self._look_after_the_group()
        for each in waiting:
            each.outcome.set_exception(NotReadyError(_STOPPING))
        self._drop_writer()

    def _take_requests(self) -> list[_Request]:
        """Wait for the next request, a wake-up or a tick; return all requests that are queued by then.

        Task configs, for which no user waits, wait a moment for more, because connectors are often created together.
        """
        taken: list[_Request] = []
        go_at_s = time.monotonic() + _TICK_S
        while True:
            try:
                request = self._requests.get(timeout=max(0.0, go_at_s - time.monotonic()))
            except queue.Empty:
                return taken
            if request is not None:
                taken.append(request)
                is_patient = isinstance(request.command, PutTaskConfigs)
                go_at_s = min(go_at_s, time.monotonic() + _COMPANY_S if is_patient else 0.0)
            elif not taken:
                go_at_s = 0.0

    def _answer(self, waiting: list[_Request]) -> None:
        """Carry out requests, or refuse them if this worker does not lead."""
        while waiting and self._term.is_owner:
            count = independent([each.command for each in waiting], _MOST_TOGETHER)
            self._answer_together(waiting[:count])
            waiting = waiting[count:]
        for each in waiting:
            each.outcome.set_exception(NotLeadingError())

    def _answer_together(self, requests: Sequence[_Request]) -> None:
        try:
            outcomes: Sequence[_Outcome] = self._carry_out([each.command for each in requests])
        except Exception as error:
            outcomes = [error] * len(requests)
        for each, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, Exception):
                each.outcome.set_exception(outcome)
            else:
                each.outcome.set_result(outcome)

    def _look_after_the_group(self) -> None:
        with self._kept:
            self._looks = (self._looks[0] + 1, self._looks[1])
            is_asked_for = self._look_asked_for >= self._looks[0]
        self._keep_house(is_asked_for)
        with self._kept:
            self._looks = (self._looks[0], self._looks[0])
            self._kept.notify_all()

    def _keep_house(self, is_asked_for: bool) -> None:
        """Fence, renew the key and reassign, every second and after changes. `is_asked_for`: read everything again."""
        try:
            self._ensure_writer()  # first: it ends what an earlier writer left open, which the read would wait for
            snapshot = self._newest_snapshot() if is_asked_for else self._own_snapshot()
            found = self._look(afresh=is_asked_for)
            if not self._is_settled(lost_tasks(snapshot, _members(snapshot, found)), snapshot):
                self._roster = frozenset()  # until then nothing moves; settling wakes this thread
                return
            self._roster = found
            members = self._members_of(snapshot)
            abandoned = self._abandoned_tasks(snapshot, {m.incarnation for m in members}) if members else set()
            if abandoned:
                log.warning("leader: what workers that are gone were to end is fenced: %s", _names(abandoned))
                self._left_open.end(snapshot, abandoned)  # these tasks are assigned to nobody
            self._carry_out([RotateSessionKey(*self._key, now_ms()), self._reassignment(members)], self._own_snapshot)
        except NotLeadingError:
            log.info("leader: this worker leads no more, or not yet again")
        except Exception as error:
            log.warning("leader: %s", error)

    def _is_settled(self, lost: Collection[TaskId], snapshot: ClusterSnapshot) -> bool:
        """Return whether lost tasks may be reassigned: what they had open has been ended, as far as possible."""
        if not lost:
            self._ending = None
            return True
        if self._ending is None or not self._ending.tasks.issuperset(lost):
            what = f"wait {self._lost_delay_ms / 1000:g} s for it" if self._lost_delay_ms else "move"
            log.warning("leader: tasks of a lost worker are fenced and %s: %s", what, _names(lost))
            self._ending = self._left_open.end(snapshot, lost)
        return self._ending.is_settled

    def _look(self, *, afresh: bool) -> frozenset[str]:
        """Return the group's members: a recent answer if no term has begun since, else a new one."""
        term, now_s = self._term, time.monotonic()
        looked_in, looked_at_s = self._looked
        if afresh or not self._roster or looked_in is not term or now_s > looked_at_s + _TICK_S:
            self._found = frozenset(self._member_urls())
            self._looked = term, now_s  # both from before the request: a newer term asks again
        return self._found

    def _members_of(self, snapshot: ClusterSnapshot) -> tuple[Member, ...]:
        return _members(snapshot, self._roster)

    def _reassignment(self, members: tuple[Member, ...]) -> Reassign:
        return Reassign(members, self._lost_delay_ms, now_ms())

    def _carry_out(self, commands: _Commands, read: Callable[[], ClusterSnapshot] | None = None) -> "list[_Outcome]":
        """Decide and write commands that do not depend on each other. Raises OperationError if nothing is written.

        If this leader's transactional id was taken (a deposed leader that wakes up takes it), this raises an error, and
        the next request takes the id back. To take it back at once could fence the rightful leader, if this is not it.

        `read` returns the snapshot to decide on; by default the newest, with everything that was confirmed to callers.
        """
        read = read or self._newest_snapshot
        try:
            return self._decide_and_write(commands, read)
        except OperationError:
            raise
        except Exception as error:
            self._drop_writer()
            if isinstance(error, StaleMemberError):
                if self._term is self._writing_term:
                    self._term = Term(self._term.number)  # deposed, until the next assignment says otherwise
                log.info("leader: refused by the group, nothing was written: %s", error)
                raise NotLeadingError from error
            log.warning("leader: a write failed: %s", error)
            if isinstance(error, CommitUnknownError):
                log.info("leader: the topic is read anew to learn what happened")
            raise self._failed_write(error) from error

    def _newest_snapshot(self) -> ClusterSnapshot:
        snapshot = self._log.read_to_end(_READ_S)
        self._has_read = True
        return snapshot

    def _own_snapshot(self) -> ClusterSnapshot:
        """Return, without a request, everything that leaders wrote. The latest reports of workers may be missing."""
        return self._log.snapshot if self._has_read else self._newest_snapshot()

    def _decide_and_write(self, commands: _Commands, read: Callable[[], ClusterSnapshot]) -> "list[_Outcome]":
        writer = self._ensure_writer()
        snapshot = read()
        decisions = [self._fitting(_decision(command, snapshot)) for command in commands]
        records = [record for decision in decisions if not isinstance(decision, OperationError) for record in decision]
        if records:
            then = after(snapshot, records)
            records += self._reassignment(self._members_of(then)).decide(then)
            written = _Newest()
            for key, value in records:
                writer.send(self._log.topic, value, key=key, partition=CONFIG_PARTITION, on_delivery=written)
            for topic, key, value in other_records(commands, decisions):
                writer.send(topic, value, key=key)
            writer.commit(
                group_offsets=[GroupOffset(self._log.topic, 0, snapshot.offset)],
                group_metadata=self._writing_term.metadata,
            )  # E4, E10
            snapshot = self._log.read_past(written.offset, _READ_S)
        return [decision if isinstance(decision, OperationError) else snapshot for decision in decisions]

    def _fitting(self, decision: "Sequence[Encoded] | OperationError") -> "Sequence[Encoded] | OperationError":
        """Return the decision; a refusal if the producer would not send its records. Others are not affected."""
        most = most_record_bytes(self._conf)
        for key, value in () if isinstance(decision, OperationError) else decision:
            if (size := len(key) + len(value or b"")) > most:
                return BadRequestError(
                    f"{key.decode()} takes {size:,} bytes, and a record of topic {self._log.topic} may have {most:,} "
                    "at most: shorten the config"
                )
        return decision

    def _ensure_writer(self) -> TransactionalWriter:
        """Return a writer of this term. After opening a new one, read to the end before anything is decided."""
        term = self._term
        if not term.is_owner:  # the lead may have been lost since then; without proof nothing is written (E4)
            raise NotLeadingError
        if self._writer is not None and (self._writer.is_struck or self._writing_term is not term):
            self._drop_writer()
        if self._writer is None:
            writer = TransactionalWriter(self._conf, self._id, WriterTimeouts(open_s=30.0, commit_s=30.0))
            try:
                writer.open()
            except Exception as error:
                writer.close()
                raise self._failed_write(error) from error
            self._writer, self._writing_term, self._ending = writer, term, None
        return self._writer

    def _failed_write(self, error: Exception) -> OperationError:
        """Return the error for a failed write: a missing permission is not temporary."""
        if isinstance(error, ProduceError) and error.is_batch_too_large:
            return BadRequestError(
                f"The topic {self._log.topic} refuses what is to be written as too large: shorten the config, or raise "
                f"max.message.bytes of the topic"
            )
        if not (isinstance(error, WriterOpenError | ProduceError) and error.is_denied):
            return WriteFailedError()
        return OperationError(
            f"The leader is not authorized to write the config topic: {error}. It takes Read and Write on topic "
            f"{self._log.topic}, Read on group {self._group_id} and Write on transactional id {self._id}: grant the "
            "worker's principal what `fencepost acls` lists"
        )

    def _drop_writer(self) -> None:
        writer, self._writer, self._has_read = self._writer, None, False
        if writer is not None:
            writer.close()


def _members(snapshot: ClusterSnapshot, roster: frozenset[str]) -> tuple[Member, ...]:
    """Return the members of a roster that have announced themselves, each as its newest process."""
    urls = sorted(roster & set(snapshot.incarnations))
    return tuple(Member(url, snapshot.incarnations[url], url in snapshot.ready_workers) for url in urls)


def _names(tasks: Collection[TaskId]) -> str:
    return ", ".join(map(str, sorted(tasks)))


def _decision(command: LeaderCommand, snapshot: ClusterSnapshot) -> Sequence[Encoded] | OperationError:
    try:
        return command.decide(snapshot)
    except OperationError as refusal:
        return refusal
    except Exception as error:  # such as a value without JSON: it does not affect the commands decided with it
        log.exception("leader: %s cannot be decided", type(command).__name__)
        return OperationError(f"{type(command).__name__} cannot be carried out: {error}")
