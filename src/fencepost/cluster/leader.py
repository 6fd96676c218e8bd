"""The leader: decides, and writes the config topic. Runs in every worker, works in one.

Writes that wait at the same time and are of different connectors share a transaction (docs/decisions). Order, after
every election and every re-initialisation: join, init, read to the end, decide.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from fencepost.cluster.balance import Balance, LostTasks, Roster
from fencepost.cluster.command import (
    ConnectorCommand,
    LeaderCommand,
    PutTaskConfigs,
    RotateSessionKey,
    independent,
    now_ms,
    other_records,
)
from fencepost.cluster.errors import BadRequestError, NotLeadingError, NotReadyError, OperationError, WriteFailedError
from fencepost.cluster.fencing import leader_transactional_id
from fencepost.kafka.group.member import Term
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.kafka.value.position import GroupOffset
from fencepost.storage import records
from fencepost.storage.config_topic import CONFIG_PARTITION, ConfigTopic
from fencepost.storage.fold import after
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

_READ_S = 30.0
log = logging.getLogger(__name__)

_MOST_TOGETHER = 100
_NOT_JOINED = Term(0)

_Commands = Sequence[LeaderCommand]
_Outcome = ClusterSnapshot | Exception


class _Newest:
    """The offset of the last record of a transaction; the topic has one partition."""

    def __init__(self) -> None:
        self.offset = -1

    def __call__(self, error: Any, message: Any) -> None:
        if error is None:
            self.offset = message.offset()


class LeaderLog:
    """The config topic as the leader reads and writes it. `term` is the one in which the writer was opened.

    Used by the leader's thread. Every logical write is in one transaction of the id `connect-cluster-<group>` that
    carries the group metadata captured at the assignment that made this worker leader, so that the coordinator refuses
    a deposed leader (E4).
    """

    def __init__(self, group_id: str, config_log: ConfigTopic, producer_conf: Mapping[str, Any]) -> None:
        self._group_id = group_id
        self._id = leader_transactional_id(group_id)
        self._log = config_log
        self._conf = {**producer_conf, "delivery.report.only.error": False}  # a delivery report has the record's offset
        self.term = Term(0)
        self._writer: TransactionalWriter | None = None
        self._has_read = False  # to the end, since the writer was opened

    def open(self, term: Term) -> bool:
        """Ensure that there is a writer of this term. Returns whether it is a new one.

        After opening a new one, read to the end before anything is decided.
        """
        if not term.is_owner:  # the lead may have been lost since then; without proof nothing is written (E4)
            raise NotLeadingError
        if self._writer is not None and (self._writer.is_struck or self.term is not term):
            self.close()
        if self._writer is not None:
            return False
        writer = TransactionalWriter(self._conf, self._id, WriterTimeouts(open_s=30.0, commit_s=30.0))
        try:
            writer.open(topic=self._log.topic)
        except Exception as error:
            writer.close()
            raise self.failure(error) from error
        self._writer, self.term = writer, term
        return True

    def close(self) -> None:
        writer, self._writer, self._has_read = self._writer, None, False
        if writer is not None:
            writer.close()

    def newest(self) -> ClusterSnapshot:
        """Return everything that was confirmed to callers."""
        snapshot = self._log.read_to_end(_READ_S)
        self._has_read = True
        return snapshot

    def own(self) -> ClusterSnapshot:
        """Return, without a request, everything that leaders wrote. The latest reports of workers may be missing."""
        return self._log.snapshot if self._has_read else self.newest()

    def write(
        self, decided_on: ClusterSnapshot, written: Iterable[Encoded], others: Iterable[tuple[str, bytes, bytes | None]]
    ) -> ClusterSnapshot:
        """Write records to the config topic, and `others` to their topics, in one transaction.

        Returns the snapshot that includes them.
        """
        assert self._writer is not None
        newest = _Newest()
        for key, value in written:
            self._writer.send(self._log.topic, value, key=key, partition=CONFIG_PARTITION, on_delivery=newest)
        for topic, key, value in others:
            self._writer.send(topic, value, key=key)
        offsets = [GroupOffset(self._log.topic, 0, decided_on.offset)]
        self._writer.commit(group_offsets=offsets, group_metadata=self.term.metadata)  # E4, E10
        return self._log.read_past(newest.offset, _READ_S)

    def fitting(self, decision: "Sequence[Encoded] | OperationError") -> "Sequence[Encoded] | OperationError":
        """Return the decision; a refusal if the producer would not send its records. Others are not affected."""
        most = most_record_bytes(self._conf)
        for key, value in () if isinstance(decision, OperationError) else decision:
            if (size := len(key) + len(value or b"")) > most:
                return BadRequestError(
                    f"{key.decode()} takes {size:,} bytes, and a record of topic {self._log.topic} may have {most:,} "
                    f"at most: {_remedy(key)}"
                )
        return decision

    def failure(self, error: Exception) -> OperationError:
        """Return the error for a failed write: a missing permission is not temporary."""
        if isinstance(error, ProduceError) and error.is_batch_too_large:
            return BadRequestError(
                f"The topic {self._log.topic} refuses what is to be written as too large: shorten the config, delete "
                f"connectors, or raise max.message.bytes of the topic"
            )
        if not (isinstance(error, WriterOpenError | ProduceError) and error.is_denied):
            return WriteFailedError()
        return OperationError(
            f"The leader is not authorized to write the config topic: {error}. It takes Read and Write on topic "
            f"{self._log.topic}, Read on group {self._group_id} and Write on transactional id {self._id}: grant the "
            "worker's principal what `fencepost acls` lists"
        )


def _remedy(key: bytes) -> str:
    if key.startswith(records.ASSIGNMENT.encode()):
        return "upgrade the workers of an older version, which read all connectors and tasks in one record"
    if key.startswith(records.PLACEMENT.encode()):
        return "give the connector fewer tasks, or delete it"
    return "shorten the config"


@dataclass
class QueuedCommand:
    command: ConnectorCommand
    outcome: "Future[ClusterSnapshot]" = field(default_factory=Future)

    def answer(self, outcome: ClusterSnapshot | Exception) -> None:
        if isinstance(outcome, Exception):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class CommandQueue:
    """Any thread may `submit`, `wake` and `close`; the leader's thread takes."""

    def __init__(self, *, tick_s: float = 1.0, company_s: float = 0.02) -> None:
        """`company_s` is how long task configs wait for more."""
        self._tick_s, self._company_s = tick_s, company_s
        self._queue: queue.Queue[QueuedCommand | None] = queue.Queue()
        self.is_closed = False

    def submit(self, command: ConnectorCommand) -> "Future[ClusterSnapshot]":
        """Queue a command. It is refused if the queue is closed."""
        queued = QueuedCommand(command)
        if self.is_closed:
            queued.answer(self.refusal())
        else:
            self._queue.put(queued)
        return queued.outcome

    def wake(self) -> None:
        """End a `take` that waits."""
        self._queue.put(None)

    def close(self) -> None:
        self.is_closed = True
        self.wake()

    def is_empty(self) -> bool:
        return self._queue.empty()

    @staticmethod
    def refusal() -> OperationError:
        """Return the answer to commands that are not carried out any more."""
        return NotReadyError("The worker is shutting down")

    def take(self) -> list[QueuedCommand]:
        """Wait for the next command, a wake-up or a tick; return all commands that are queued by then.

        Task configs, for which no user waits, wait a moment for more, because connectors are often created together.
        """
        taken: list[QueuedCommand] = []
        go_at_s = time.monotonic() + self._tick_s
        while True:
            try:
                queued = self._queue.get(timeout=max(0.0, go_at_s - time.monotonic()))
            except queue.Empty:
                return taken
            if queued is not None:
                taken.append(queued)
                is_patient = isinstance(queued.command, PutTaskConfigs)
                go_at_s = min(go_at_s, time.monotonic() + self._company_s if is_patient else 0.0)
            elif not taken:
                go_at_s = 0.0


class _Looks:
    """Counts the leader's looks at the group, so that another thread can wait for one that begins after its call."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = self._ended = self._asked_for = 0

    def begin(self) -> bool:
        """Count a look that begins. Returns whether a thread waits for it."""
        with self._changed:
            self._begun += 1
            return self._asked_for >= self._begun

    def end(self) -> None:
        with self._changed:
            self._ended = self._begun
            self._changed.notify_all()

    def wait_for_next(self, wake: Callable[[], None], is_over: Callable[[], bool], timeout_s: float) -> None:
        """Wait until the next look has ended, or `is_over`; `wake` makes it begin soon."""
        with self._changed:
            wanted = self._asked_for = self._begun + 1
            wake()
            self._changed.wait_for(lambda: self._ended >= wanted or is_over(), timeout_s)


class Leader:
    """A thread that carries out commands while this worker leads. Commands that wait together are decided together.

    `submit` may be called from any thread, even before this worker has joined: the command then waits. It is refused
    with NotLeadingError if another worker leads, or none does.
    """

    def __init__(
        self,
        group_id: str,
        config_log: ConfigTopic,
        producer_conf: Mapping[str, Any],
        roster: Roster,
        lost: LostTasks,
        queue: CommandQueue,
        *,
        key_algorithm: str = "HmacSHA256",
        key_ttl_ms: int = 3_600_000,
    ) -> None:
        self._log = LeaderLog(group_id, config_log, producer_conf)
        self._balance = Balance(roster, lost)
        self._key = (key_algorithm, key_ttl_ms)
        self._term = _NOT_JOINED
        self._failure: str | None = None
        self._queue = queue
        self._looks = _Looks()
        self._thread = threading.Thread(target=self._run, name="leader", daemon=True)

    @property
    def has_joined(self) -> bool:
        return self._term is not _NOT_JOINED

    @property
    def is_leading(self) -> bool:
        return self._term.is_owner

    @property
    def term(self) -> object:
        """Return the current term. If it is the same object later, no other worker has led in between."""
        return self._term

    @property
    def refusal(self) -> str | None:
        return (self._balance.refusal or self._failure) if self.is_leading else None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the current command and end; waiting commands are refused."""
        self._queue.close()
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def on_term(self, term: Term) -> None:
        """Record a term, which each assignment of the group begins; the writer is renewed before the next decision."""
        self._term = term
        self.group_changed()

    def submit(self, command: ConnectorCommand) -> "Future[ClusterSnapshot]":
        """Queue a command. The future holds the snapshot that includes its effect, or an OperationError."""
        return self._queue.submit(command)

    def wake(self) -> None:
        """Check soon whether the assignment has to change."""
        self._queue.wake()

    def group_changed(self) -> None:
        """Ask the group again soon: its last answer is out of date."""
        self._balance.roster.forget()
        self._queue.wake()

    def reassign(self, timeout_s: float) -> None:
        """Wait until the assignment fits the present group, for as long as this worker leads."""
        self._looks.wait_for_next(self._queue.wake, lambda: not self._term.is_owner, timeout_s)

    def _run(self) -> None:
        waiting: list[QueuedCommand] = []
        while not self._queue.is_closed:
            waiting += self._queue.take()
            if not self.has_joined:
                continue
            self._answer(waiting)
            waiting = []
            if self._term.is_owner and self._queue.is_empty():
                is_asked_for = self._looks.begin()
                self._keep_house(is_asked_for)
                self._looks.end()
        for each in waiting:
            each.answer(self._queue.refusal())
        self._log.close()

    def _answer(self, waiting: list[QueuedCommand]) -> None:
        while waiting and self._term.is_owner:
            count = independent([each.command for each in waiting], _MOST_TOGETHER)
            self._answer_together(waiting[:count])
            waiting = waiting[count:]
        for each in waiting:
            each.answer(NotLeadingError())

    def _answer_together(self, queued: Sequence[QueuedCommand]) -> None:
        try:
            outcomes: Sequence[_Outcome] = self._carry_out([each.command for each in queued])
        except Exception as error:
            outcomes = [error] * len(queued)
        for each, outcome in zip(queued, outcomes, strict=True):
            each.answer(outcome)

    def _keep_house(self, is_asked_for: bool) -> None:
        """Fence, renew the key and reassign, every second and after changes. `is_asked_for`: read everything again."""
        roster, lost = self._balance.roster, self._balance.lost
        try:
            self._open()  # first: it ends what an earlier writer left open, which the read would wait for
            snapshot = self._log.newest() if is_asked_for else self._log.own()
            if not lost.are_settled(snapshot, roster.look(snapshot, self._term, afresh=is_asked_for)):
                roster.forget()  # until then nothing moves; settling wakes this thread
                return
            roster.settle()
            lost.end_abandoned(snapshot, roster.members(snapshot))
            (outcome,) = self._carry_out([RotateSessionKey(*self._key, now_ms())], self._log.own)
            if isinstance(outcome, Exception):
                raise outcome
            self._failure = None
        except NotLeadingError:
            log.info("leader: this worker leads no more, or not yet again")
        except Exception as error:
            self._failure = str(error)
            log.warning("leader: %s", error)

    def _open(self) -> None:
        if self._log.open(self._term):
            self._balance.lost.forget()

    def _carry_out(self, commands: _Commands, read: Callable[[], ClusterSnapshot] | None = None) -> "list[_Outcome]":
        """Decide and write independent commands, and what they move. Raises OperationError if nothing is written.

        If this leader's transactional id was taken (a deposed leader that wakes up takes it), this raises an error, and
        the next request takes the id back. To take it back at once could fence the rightful leader, if this is not it.

        `read` returns the snapshot to decide on; by default the newest, with everything that was confirmed to callers.
        """
        try:
            return self._decide_and_write(commands, read or self._log.newest)
        except OperationError:
            raise
        except Exception as error:
            self._log.close()
            if isinstance(error, StaleMemberError):
                if self._term is self._log.term:
                    self._term = Term(self._term.number)  # deposed, until the next assignment says otherwise
                log.info("leader: refused by the group, nothing was written: %s", error)
                raise NotLeadingError from error
            log.warning("leader: a write failed: %s", error)
            if isinstance(error, CommitUnknownError):
                log.info("leader: the topic is read again to learn what happened")
            raise self._log.failure(error) from error

    def _decide_and_write(
        self, commands: _Commands, read: Callable[[], ClusterSnapshot], *, moves_work: bool = True
    ) -> "list[_Outcome]":
        """Write what the commands decide even if an assignment cannot be written: they may be what mends that."""
        self._open()
        snapshot = read()
        decisions = [self._log.fitting(_decision(command, snapshot)) for command in commands]
        records = [record for decision in decisions if not isinstance(decision, OperationError) for record in decision]
        moves = self._moves(after(snapshot, records) if records else snapshot) if moves_work else []
        if records or moves:
            try:
                others = other_records(commands, decisions)
                snapshot = self._log.write(snapshot, [*records, *moves], others)
            except ProduceError as error:
                if not (moves and error.is_batch_too_large):
                    raise
                self._log.close()
                outcomes = self._decide_and_write(commands, self._log.newest, moves_work=False)
                self._balance.refused(self._log.failure(error), now_ms())
                return outcomes
            if moves:
                self._balance.accepted()
        return [decision if isinstance(decision, OperationError) else snapshot for decision in decisions]

    def _moves(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        moves = self._log.fitting(self._balance.decide(snapshot, now_ms()))
        if isinstance(moves, OperationError):
            self._balance.refused(moves, now_ms())
            return []
        return moves


def _decision(command: LeaderCommand, snapshot: ClusterSnapshot) -> Sequence[Encoded] | OperationError:
    try:
        return command.decide(snapshot)
    except OperationError as refusal:
        return refusal
    except Exception as error:  # such as a value without JSON: it does not affect the commands decided with it
        log.exception("leader: %s cannot be decided", type(command).__name__)
        return OperationError(f"{type(command).__name__} cannot be carried out: {error}")
