"""The processes of a worker: which of them is connected to the broker, and whether they are alive."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import psutil


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return ""


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def standing_still(process: psutil.Process) -> Iterator[None]:
    """Suspend a process with all below it; some of these live for moments only, and may be gone."""
    still = []
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.suspend()
            still.append(each)
    try:
        yield
    finally:
        resume(still)


def resume(processes: Iterable[psutil.Process]) -> None:
    """Let processes go on that were suspended; some may be gone."""
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.resume()


def peer_ports(pid: int) -> set[int]:
    """Return the ports that a process is connected to."""
    return {c.raddr.port for c in _connections(pid)}


def is_connected(pid: int, port: int, peer_port: int) -> bool:
    """Say whether a process has the connection from this local port to that of a peer: others may use either."""
    return any((c.laddr.port, c.raddr.port) == (port, peer_port) for c in _connections(pid))


def owner_of(port: int, peer_port: int) -> psutil.Process:
    """Return the process that has the connection from this local port to that of a peer. Raises LookupError."""
    wanted = (port, peer_port)
    found = [c for c in psutil.net_connections("tcp") if (_port(c.laddr), _port(c.raddr)) == wanted]
    for connection in found:
        if connection.pid is not None:
            return psutil.Process(connection.pid)
    raise LookupError(f"no process holds a connection from port {port} to {peer_port}: {found}")


def _port(address: Any) -> int | None:
    return address.port if address else None


def _connections(pid: int) -> list[Any]:
    with contextlib.suppress(psutil.Error):
        return [c for c in psutil.Process(pid).net_connections("tcp") if c.raddr]
    return []
