"""Several workers of one group, of either side."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.side import SIDES, Side
from fencepost.testing import eventually

_WITHIN_S = 120.0


@contextmanager
def workers(
    name: str, bootstrap: str, directory: Path, count: int, settings: Mapping[str, str] | None = None
) -> Iterator[list[Side]]:
    """So many workers, started one after the other, all healthy; gone with all below them at the end."""
    with ExitStack() as stack:
        group: list[Side] = []
        for _ in range(count):
            side = SIDES[name](bootstrap, directory, settings, group=group[0].group if group else "")
            group.append(stack.enter_context(side))
        yield group


def owners(via: Side, connector: str) -> list[str]:
    """The addresses of the workers that run the connector's tasks, by number; of those that are RUNNING."""
    tasks = via.status(connector).get("tasks", [])
    return [task["worker_id"] for task in sorted(tasks, key=lambda t: int(t["id"])) if task["state"] == "RUNNING"]


def await_spread(via: Side, connectors: Sequence[str], tasks: int, among: Sequence[Side]) -> dict[str, list[str]]:
    """Wait until all tasks run, spread evenly over just these workers; who runs them, by connector. TimeoutError."""
    addresses = [side.address for side in among]

    def spread() -> dict[str, list[str]] | None:
        found = {name: owners(via, name) for name in connectors}
        everybody = [owner for each in found.values() for owner in each]
        loads = [everybody.count(address) for address in addresses]
        is_even = sum(loads) == len(everybody) and max(loads) - min(loads) <= 1
        return found if all(len(each) == tasks for each in found.values()) and is_even else None

    found = eventually(spread, within_s=_WITHIN_S)
    assert found is not None
    return found


def at(group: Sequence[Side], address: str) -> Side:
    """The worker with this address."""
    return next(side for side in group if side.address == address)
