"""What a restart request means for a connector and its tasks (KIP-745). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.storage.change import RestartRequested
from fencepost.storage.status_topic import State, Status


@dataclass(frozen=True)
class RestartPlan:
    """Whether the connector is restarted, and which of its tasks."""

    is_connector_restarted: bool
    tasks: tuple[int, ...]


def plan_restart(request: RestartRequested, connector: Status | None, tasks: Mapping[int, Status]) -> RestartPlan:
    """Decide by the states that are known when the request is read."""

    def is_due(status: Status | None) -> bool:
        return not request.only_failed or (status is not None and status.state is State.FAILED)

    chosen = tuple(n for n, status in sorted(tasks.items()) if is_due(status)) if request.include_tasks else ()
    return RestartPlan(is_due(connector), chosen)
