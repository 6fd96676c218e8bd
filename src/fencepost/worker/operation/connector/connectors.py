"""Connectors: their configs and target states, which the leader writes, and restarts."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event

from fencepost.cluster.command import PutConnector, RemoveConnector, RequestRestart, StaleConfigError, StopConnector
from fencepost.cluster.errors import AlreadyExistsError, BadRequestError, ConflictError, NotFoundError
from fencepost.cluster.info import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    InitialState,
    KeyWarning,
    Place,
    StoredConnector,
)
from fencepost.config.raw import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import registry
from fencepost.redaction import HIDDEN
from fencepost.storage import records
from fencepost.storage.change import RestartRequested
from fencepost.storage.config_topic import TopicWriter
from fencepost.storage.ids import TargetState
from fencepost.storage.status_topic import StatusTable
from fencepost.worker.connector_classes import refusal_of_change
from fencepost.worker.operation.connector.answer import info_of, status_of, with_restarting
from fencepost.worker.operation.connector.dead_letters import DeadLetters
from fencepost.worker.operation.connector.masking import masked, unmasked
from fencepost.worker.operation.connector.restart import plan_restart
from fencepost.worker.operation.offset.offsets import Offsets
from fencepost.worker.operation.request import READ_S, Requests
from fencepost.worker.validation.validation import require_valid, validate_connector

log = logging.getLogger(__name__)

_PATCH_TRIES = 10
_TARGETS = {
    InitialState.RUNNING: TargetState.STARTED,
    InitialState.PAUSED: TargetState.PAUSED,
    InitialState.STOPPED: TargetState.STOPPED,
}


class Connectors:
    """The `ConnectorOperations` of a worker."""

    def __init__(
        self,
        requests: Requests,
        config: WorkerConfig,
        statuses: StatusTable,
        writer: TopicWriter,
        offsets: Offsets,
        restart_here: Callable[[str], Event],
        dead_letters: DeadLetters,
    ) -> None:
        """`restart_here` restarts a connector that runs on this worker; it returns an event that is set afterwards."""
        self._requests = requests
        self._config = config
        self._statuses = statuses
        self._writer = writer
        self._offsets = offsets
        self._restart_here = restart_here
        self.dead_letters = dead_letters

    def info(self, name: str) -> ConnectorInfo:
        return info_of(self._requests.known(name), name)

    def config(self, name: str) -> RawConfig:
        return masked(self._requests.known(name).connectors[name])

    def create(
        self,
        name: str,
        config: RawConfig,
        initial_state: InitialState | None,
        initial_offsets: Sequence[ConnectorOffset] | None = None,
    ) -> StoredConnector:
        self._requests.ensure_leading()
        if name in self._requests.snapshot.connectors:
            raise AlreadyExistsError(f"Connector {name} already exists")
        warnings = self._check(config)
        target = None if initial_state is None else _TARGETS[initial_state]
        command = PutConnector(name, config, is_create=True, target_state=target)
        stage = _writing(name)
        status = None
        if initial_offsets is None:
            snapshot = self._requests.lead(command, stage)
        else:
            snapshot, status = self._offsets.create(command, initial_offsets, stage)
        _log(name, warnings)
        return StoredConnector(True, replace(info_of(snapshot, name), offsets_status=status), warnings)

    def put_config(self, name: str, config: RawConfig) -> StoredConnector:
        self._requests.ensure_leading()
        return self._put(name, config)

    def _put(self, name: str, config: RawConfig, expected: RawConfig | None = None) -> StoredConnector:
        before = self._requests.snapshot
        config = unmasked(config, before.connectors.get(name))
        warnings = self._check(config)
        if refusal := refusal_of_change(before.connectors.get(name, {}), config):
            raise BadRequestError(f"The class of connector {name} cannot be changed like this: {refusal}")
        snapshot = self._requests.lead(PutConnector(name, config, expected=expected), _writing(name))
        _log(name, warnings)
        tasks = info_of(before, name).tasks if name in before.connectors else ()
        info = replace(info_of(snapshot, name), tasks=tasks)
        return StoredConnector(name not in before.connectors, info, warnings)

    def patch_config(self, name: str, patch: RawConfig) -> StoredConnector:
        self._requests.ensure_leading()
        for _ in range(_PATCH_TRIES):
            with self._requests.asking("reading to the end of the config topic"):
                snapshot = self._requests.read_to_end()
            if name not in snapshot.connectors:
                raise NotFoundError(f"Connector {name} not found")
            stored = snapshot.connectors[name]
            merged = {k: v for k, v in {**stored, **patch}.items() if not (k in patch and v is None)}
            try:
                return self._put(name, merged, expected=stored)
            except StaleConfigError:
                continue  # another change came first: apply the patch to its result
        raise ConflictError(f"The config of connector {name} keeps changing; send the request again")

    def delete(self, name: str) -> None:
        self._requests.ensure_leading()
        self._requests.lead(RemoveConnector(name), f"removing the config for connector {name} from the config topic")

    def pause(self, name: str) -> None:
        self._set_target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._set_target(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        self._requests.ensure_leading()
        self._requests.lead(StopConnector(name), f"stopping connector {name}")

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        if not include_tasks and not only_failed:
            self._requests.known(name, "Unknown connector: {}")
            stage = f"restarting connector {name}"
            self._requests.ensure_here(Place(name), stage)
            self._requests.await_event(self._restart_here(name), stage)
            return None
        self._requests.ensure_leading()
        self._requests.known(name, "Unknown connector: {}")
        status = self._statuses.status(name)
        if status is None:
            raise NotFoundError(f"Status for connector {name} not found")
        request = RestartRequested(name, include_tasks, only_failed)
        plan = plan_restart(request, status, self._statuses.tasks(name))
        self._requests.lead(RequestRestart(request), f"writing a restart request for connector {name}")
        shown = status_of(self._requests.snapshot, self._statuses, name)
        return with_restarting(shown, plan.tasks, is_connector_restarted=plan.is_connector_restarted)

    def _check(self, config: RawConfig) -> Sequence[KeyWarning]:
        """Return warnings about keys that look like typos. Raises BadRequestError with all faults."""
        hidden = sorted(key for key, value in config.items() if value == HIDDEN)
        if hidden:
            raise BadRequestError(
                f"{HIDDEN} stands for a stored secret, but none is stored for {', '.join(hidden)}: give the value"
            )
        report = validate_connector(config, plugins=registry(), worker=self._config)
        require_valid(report)
        return report.warnings

    def _set_target(self, name: str, state: TargetState) -> None:
        self._requests.catch_up()  # else this could outlive a connector that another worker has just deleted
        self._requests.known(name, "Unknown connector {}")
        with self._requests.asking(f"writing target state {state.value} for connector {name}"):
            self._writer.write([records.target_state(name, state)], READ_S)
            self._requests.read_to_end()


def _log(name: str, warnings: Sequence[KeyWarning]) -> None:
    for each in warnings:
        log.warning("connector %s: %s", name, each.message)


def _writing(name: str) -> str:
    return f"writing a config for connector {name} to the config topic"
