"""`fencepost mirror FILE`: the flows of a MirrorMaker 2 file, each with a worker and a process of its own."""

import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from fencepost.builtin.mirror.dedicated.file import MirrorFile
from fencepost.builtin.mirror.dedicated.flow import Flow
from fencepost.cli.mirror.processes import Processes
from fencepost.cli.worker.run import refused, serve_worker
from fencepost.config import ConfigError
from fencepost.config.file_limit import keep_from_connectors
from fencepost.config.listener import Listener
from fencepost.config.worker import WorkerConfig
from fencepost.embedded.error import EmbeddedKafkaError
from fencepost.embedded.java import find_java
from fencepost.embedded.port import choose_ports
from fencepost.telemetry.logs import configure_logs
from fencepost.worker.declaration import Declared
from fencepost.worker.host.driver import Driver

log = logging.getLogger("fencepost.builtin.mirror")

_COMMAND = (sys.executable, "-m", "fencepost.cli.main", "mirror", "run")
_LISTENERS = WorkerConfig.key_of("listeners")


def run_mirror(path: Path, names: Sequence[str], targets: Sequence[str], parent: int | None) -> int:
    """Run the flows of a file until SIGTERM or Ctrl-C. Returns the exit code.

    Args:
        names: Run only these flows, `A->B`; if empty, all.
        targets: Run only flows to these clusters; if empty, to any.
        parent: A process whose end ends this one.
    """
    configure_logs()
    try:
        find_java()
        keep_from_connectors([str(path)])
        file = MirrorFile.load(path)
        flows = chosen(file.flows(), names, targets)
        if parent is None:
            _warn(file)
        if len(flows) == 1:
            return run_flow(file, flows[0], Driver, parent)
        commands = {flow.name: _command(path, flow) for flow in flows}
        log.info("%s: %s", path, ", ".join(commands))
        return Processes(commands).run()
    except ConfigError as error:
        return refused(f"{path}: the flows of this file cannot run:", error)
    except EmbeddedKafkaError as error:
        return refused("Java is missing:", ConfigError(str(error)))


def run_flow(file: MirrorFile, flow: Flow, driver: Callable[[WorkerConfig], Driver], parent: int | None) -> int:
    """Run the worker of a flow in this process. Returns the exit code. Raises ConfigError."""
    number = [each.name for each in file.flows()].index(flow.name)
    try:
        config = WorkerConfig(with_port(flow.worker_properties(number)))
    except ConfigError as error:
        raise ConfigError([f"{flow.name}: {message}" for message in error.messages]) from None
    rivals = {
        flow.rival: f"it mirrors {flow.name} as the other type. Set connector.type back, or end all workers of the "
        f"flow and let `fencepost mirror migrate` take its positions to {flow.record_connector}"
    }
    should_end = (lambda: os.getppid() != parent) if parent is not None else (lambda: False)
    return serve_worker(driver(config), Declared(flow.connectors(), rivals), should_end)


def chosen(flows: Sequence[Flow], names: Collection[str], targets: Collection[str]) -> list[Flow]:
    """Return the flows that were asked for. Raises ConfigError for unknown names."""
    known = [flow.name for flow in flows]
    if unknown := [name for name in names if name not in known]:
        raise ConfigError([f"--flow {name}: the file runs {', '.join(known)}" for name in unknown])
    found = [flow for flow in flows if (not names or flow.name in names) and (not targets or flow.target in targets)]
    if not found:
        raise ConfigError(f"--clusters {' '.join(targets)}: no flow goes there; the file runs {', '.join(known)}")
    return found


def with_port(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's properties with a free port if they have none, as other workers send requests there."""
    listener = Listener.parse(properties[_LISTENERS])
    port = listener.port or choose_ports().client
    return {**properties, _LISTENERS: str(Listener(listener.scheme, listener.host, port))}


def _command(path: Path, flow: Flow) -> list[str]:
    return [*_COMMAND, str(path), "--flow", flow.name, "--parent", str(os.getpid())]


def _warn(file: MirrorFile) -> None:
    for key, near in file.unknown_keys():
        hint = f"; did you mean '{near}'?" if near else ""
        log.warning("The setting '%s' is unknown and has no effect%s", key, hint)
