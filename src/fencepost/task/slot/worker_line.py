"""A slot's connection to its worker, and its lease: a slot that cannot reach its worker for that long leaves."""

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.client import ChannelClient, ChannelError, ChannelFailedError, ChannelRefusedError
from fencepost.task.channel.codec import Message
from fencepost.task.channel.message import (
    Admission,
    AdmissionRequest,
    Directives,
    DirectivesRequest,
    LostTask,
    Path,
    Registration,
    Reports,
    TaskCopies,
    TaskReport,
)
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.telemetry.measure import hosts, resident_bytes

log = logging.getLogger(__name__)

_MOST_FAILED_REPORTS = 50


@dataclass(frozen=True)
class SlotSpec:
    """The settings with which a slot is started, without secrets (E11)."""

    slot: str
    channel_url: str
    lease_s: float = 10.0
    log_level: str = "INFO"
    report_every_s: float = 1.0
    retry_s: float = 0.1

    def to_text(self) -> str:
        return orjson.dumps(vars(self)).decode()


class WorkerLine:
    """Requests of one slot process to its worker. For several threads."""

    def __init__(self, spec: SlotSpec, channel: ChannelClient, attempt: str) -> None:
        self.spec = spec
        self._channel = channel
        self._attempt = attempt
        self._last_contact = time.monotonic()
        self._failed_reports = 0
        self.is_leaving = False
        self.has_left = False  # its tasks have ended, and so have their reports

    def _call(self, path: Path, message: Message, timeout_s: float = 30.0) -> dict[str, Any]:
        answer = self._channel.call(path, message.to_json(), timeout_s=timeout_s)
        self._last_contact = time.monotonic()
        return answer

    def register(self) -> bool:
        """Register the slot. Returns False if it has to leave."""
        message = Registration(self.spec.slot, self._attempt, os.getpid(), socket.gethostname())
        while not self.is_lease_over():
            try:
                self._call(Path.SLOT_REGISTER, message)
                return True
            except ChannelRefusedError as error:
                log.warning("slot %s leaves: its worker does not expect it: %s", self.spec.slot, error)
                return False
            except ChannelError:
                threading.Event().wait(self.spec.retry_s)
        return False

    def is_lease_over(self) -> bool:
        return time.monotonic() - self._last_contact > self.spec.lease_s

    def directives(self, done: int) -> Directives | None:
        """Return the directives after the one with number `done`, waiting for some; None if the slot has to leave."""
        while True:
            try:
                used = resident_bytes(), hosts.resident_bytes()
                request = DirectivesRequest(self.spec.slot, self._attempt, done, *used)
                return Directives.from_json(self._call(Path.SLOT_DIRECTIVES, request, self.spec.lease_s))
            except ChannelRefusedError as error:
                log.warning("slot %s leaves: its worker does not know it any more: %s", self.spec.slot, error)
                return None
            except ChannelError as error:
                if self.is_lease_over():
                    log.warning("slot %s leaves: it cannot reach its worker: %s", self.spec.slot, error)
                    return None
                threading.Event().wait(self.spec.retry_s)

    def admit(self, spec: TaskSpec, *, wants_offsets: bool = True) -> Admission:
        """Ask the worker (step 6 of docs/architecture.md); retries until the lease is over."""
        start = spec.connector, spec.task, spec.generation, spec.incarnation
        request = AdmissionRequest(*start, wants_offsets, spec.commits.ledger_topic)
        try:
            while True:
                try:
                    return Admission.from_json(self._call(Path.TASK_ADMIT, request, timeout_s=120.0))
                except (ChannelRefusedError, ChannelFailedError) as error:
                    return Admission(False, str(error))
                except ChannelError as error:
                    if self.is_lease_over() or self.is_leaving:
                        return Admission(False, f"the worker cannot be reached: {error}")
                    threading.Event().wait(self.spec.retry_s)
        finally:
            self._channel.release()  # else every task would hold a thread and a descriptor of the worker

    def copy(self, spec: TaskSpec, copies: Sequence[OffsetCopy]) -> None:
        """Let the worker copy a task's offsets to its own topic. Raises ChannelError."""
        try:
            self._call(Path.TASK_COPY, TaskCopies(spec.connector, spec.task, spec.incarnation, tuple(copies)))
        finally:
            self._channel.release()

    def send(self, reports: list[TaskReport | LostTask]) -> bool:
        """Send reports. Returns False if they have to be sent again."""
        if not reports:
            return True
        own = tuple(one for one in reports if isinstance(one, TaskReport))
        lost = tuple(one for one in reports if isinstance(one, LostTask))
        try:
            self._call(Path.SLOT_REPORT, Reports(self.spec.slot, self._attempt, own, lost))
        except ChannelRefusedError as error:
            log.debug("the worker refuses reports, which are dropped: %s", error)
        except ChannelFailedError as error:
            self._failed_reports += 1
            if self._failed_reports < _MOST_FAILED_REPORTS:
                return False
            log.error("the worker failed to take these reports, which are dropped: %s: %s", reports, error)
        except ChannelError as error:
            log.debug("the worker cannot be reached; reports will be sent again: %s", error)
            return False
        self._failed_reports = 0
        return True
