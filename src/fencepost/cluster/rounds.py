"""Rounds of zombie fencing: one at a time for each connector, shared by all callers (KIP-618)."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any

from fencepost.api import RetriableError
from fencepost.cluster.command import RecordTaskCount
from fencepost.cluster.errors import (
    BadRequestError,
    ConflictError,
    FencingRefusedError,
    NotFoundError,
    NotReadyError,
    WriteFailedError,
)
from fencepost.cluster.fencing import configs_to_fence, plan_fencing
from fencepost.cluster.leader import Leader
from fencepost.cluster.operations import REQUEST_S
from fencepost.cluster.threads import ThreadsByKey
from fencepost.config.reference import RawConfig
from fencepost.storage.internal_topics import READ_S
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.telemetry.traces import trace_of
from fencepost.transaction import WriterOpenError, fence


class FencingRounds:
    """Runs rounds in separate threads, on the leader."""

    def __init__(
        self,
        group_id: str,
        leader: Leader,
        read_to_end: Callable[[float], ClusterSnapshot],
        conf_of: Callable[[RawConfig], Mapping[str, Any]],
        wait_for_stops: Callable[[str, int | None], None],
        is_source: Callable[[ClusterSnapshot, str], bool],
    ) -> None:
        """`conf_of(config)` returns the settings of a connector's producers.

        `wait_for_stops(connector, generation)` returns when all workers have ended older tasks, or their time is up.
        """
        self._is_source = is_source
        self._group_id = group_id
        self._leader = leader
        self._read_to_end = read_to_end
        self._conf_of = conf_of
        self._wait_for_stops = wait_for_stops
        self._lock = threading.Lock()
        self._active: dict[str, Future[None]] = {}
        self._is_stopped = False
        self._threads = ThreadsByKey(1, "fencing")

    def fence(self, connector: str) -> "Future[None]":
        """Start a round, or join the current one. The future holds None, or the error of the round.

        The error is a NotFoundError, BadRequestError or ConflictError, a NotReadyError for a temporary cause, or a
        FencingRefusedError with the trace for any other cause.
        """
        with self._lock:
            if self._is_stopped:
                refused: Future[None] = Future()
                refused.set_exception(NotReadyError("The worker is shutting down"))
                return refused
            active = self._active.get(connector)
            if active is None:
                active = self._active[connector] = Future()
                self._threads.submit(connector, self._run, connector, active)
            return active

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            ended, self._active = list(self._active.values()), {}
        for each in ended:
            _settle(each, NotReadyError("The worker is shutting down"))
        self._threads.stop()

    def _run(self, connector: str, outcome: "Future[None]") -> None:
        error: Exception | None = None
        try:
            self._round(connector)
        except (NotFoundError, BadRequestError, ConflictError) as refusal:
            error = refusal
        except Exception as cause:
            error = _as_outcome(connector, cause)
        with self._lock:
            if self._active.get(connector) is outcome:
                del self._active[connector]
        _settle(outcome, error)

    def _round(self, connector: str) -> None:
        snapshot = self._read_to_end(READ_S)
        if connector not in snapshot.connectors:
            raise NotFoundError(f"Unknown connector {connector}")
        if not self._is_source(snapshot, connector):
            raise BadRequestError(f"Connector {connector} is not a source connector")
        plan = plan_fencing(snapshot, self._group_id, connector)
        if plan.task_count is None:
            return
        if plan.transactional_ids:
            self._wait_for_stops(connector, snapshot.commit_offsets.get(connector))
            for config in configs_to_fence(
                snapshot, connector
            ):  # E2: also on clusters to which older generations write
                self._fence(connector, plan.transactional_ids, config)
        record = RecordTaskCount(connector, plan.task_count, snapshot.commit_offsets.get(connector))
        self._leader.submit(record).result(REQUEST_S)

    def _fence(self, connector: str, transactional_ids: Sequence[str], config: RawConfig) -> None:
        conf = self._conf_of(config)
        try:
            fence(transactional_ids, lambda _: conf, REQUEST_S)
        except WriterOpenError as error:
            raise WriterOpenError(
                f"{error}. Tasks of connector {connector} may still write to "
                f"bootstrap.servers={conf.get('bootstrap.servers')}: new ones start only after these are fenced "
                "there. If that cluster is gone for good, create the connector under another name, with "
                "initial_offsets",
                is_passing=error.is_passing,
            ) from error


def _as_outcome(connector: str, cause: Exception) -> Exception:
    is_passing = isinstance(cause, RetriableError | TimeoutError | NotReadyError | WriteFailedError)
    if is_passing or (isinstance(cause, WriterOpenError) and cause.is_passing):
        outcome: Exception = NotReadyError(f"Fencing of connector {connector} is to be tried again: {cause}")
    else:
        outcome = FencingRefusedError(trace_of(cause))
    outcome.__cause__ = cause
    return outcome


def _settle(outcome: "Future[None]", error: Exception | None) -> None:
    with contextlib.suppress(InvalidStateError):
        if error is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(error)
