"""What changes of sources' and sinks' offsets have in common."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.api import ConfigError, ConnectError
from fencepost.cluster.command import ConnectorCommand
from fencepost.cluster.errors import OperationError
from fencepost.config.reference import RawConfig, given_values
from fencepost.config.worker import WorkerConfig
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.plan import looked_up

DONE = "The offsets for this connector have been {0} successfully"
FRAMEWORK_ONLY = (
    "The Connect framework-managed offsets for this connector have been {0} successfully. However, if this connector "
    "manages offsets externally, they will need to be manually {0} in the system that the connector uses."
)

Lead = Callable[[ConnectorCommand], ClusterSnapshot]
"""Lets the leader decide on a command; raises if it is refused, or this worker does not lead."""


def ask_connector(
    find: Callable[[RawConfig], type[Any]],
    connector: str,
    config: RawConfig,
    offsets: Mapping[Any, Any],
    worker: WorkerConfig,
) -> bool:
    """Let a connector check a change of offsets, or carry it out externally. Returns whether it says that it did.

    Raises OperationError with the connector's message if it refuses.
    """
    try:
        return bool(find(config)(given_values(looked_up(worker, config).require())).alter_offsets(offsets))
    except NotImplementedError as error:
        raise OperationError(
            f"Failed to modify offsets for connector {connector} because it doesn't support external "
            "modification of offsets"
        ) from error
    except (ConnectError, ConfigError) as error:
        raise OperationError(str(error)) from error
