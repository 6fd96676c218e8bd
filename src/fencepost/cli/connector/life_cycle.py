"""`fencepost pause`, `resume` and `stop`."""

from typing import TYPE_CHECKING

from fencepost.cli.completion import ConnectorNames
from fencepost.cli.connector.each import for_each
from fencepost.cli.on_worker import on_worker

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def pause(connect: "Connect", names: ConnectorNames) -> None:
    """Pause connectors and their tasks; they keep their resources."""
    for_each(names, "asked to pause", lambda name: connect.put("connectors", name, "pause"))


@on_worker
def resume(connect: "Connect", names: ConnectorNames) -> None:
    """Let paused or stopped connectors go on."""
    for_each(names, "asked to resume", lambda name: connect.put("connectors", name, "resume"))


@on_worker
def stop(connect: "Connect", names: ConnectorNames) -> None:
    """Stop connectors and remove their tasks; configs and offsets stay."""
    for_each(names, "asked to stop", lambda name: connect.put("connectors", name, "stop"))
