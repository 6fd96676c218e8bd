"""A worker without Spark: everything of it is real, but its slots are plain child processes instead of Spark's.

For tests of what workers do among themselves: it is up in a second or two and costs a tenth. It is what `main` does in
a process of its own (see `support.forked`). On SIGUSR1 all print what their threads do.
"""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from support.forked import Born, Nursery

if TYPE_CHECKING:
    from fencepost.config.worker import WorkerConfig
    from fencepost.worker.driver import Driver

OnEnd = Callable[[str, Exception | None], None]


class ChildSlots:
    """The `Jobs` of a `SlotPool`: a child process is a slot."""

    def __init__(self, nursery: Nursery, secrets: dict[str, str], on_end: OnEnd) -> None:
        self._nursery = nursery
        self._environment = {**os.environ, **secrets}
        self._on_end = on_end
        self._children: dict[str, Born] = {}

    def launch(self, slot_id: str, spec_json: str) -> None:
        child = self._children[slot_id] = self._nursery.fork([spec_json], self._environment)
        threading.Thread(target=self._await, args=(slot_id, child), daemon=True).start()

    def cancel(self, slot_id: str) -> None:
        child = self._children.pop(slot_id, None)
        if child is not None:
            child.kill()

    def stop(self) -> None:
        for slot_id in list(self._children):
            self.cancel(slot_id)

    def _await(self, slot_id: str, child: Born) -> None:
        code = child.wait()
        was_cancelled = self._children.get(slot_id) is not child
        self._on_end(slot_id, None if was_cancelled or code == 0 else RuntimeError(f"the slot ended with {code}"))


class LightSpark:
    """The `Runtime` of a worker that has no Spark."""

    cores, is_alive, jvm_pid = 4, True, None
    context = session = None

    def on_exit(self, listener: Callable[[str], None]) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


def _driver(nursery: Nursery, config: "WorkerConfig") -> "Driver":
    from fencepost.worker.driver import Driver

    class LightDriver(Driver):
        def launch(self) -> None: ...

        def runtime(self) -> LightSpark:
            return LightSpark()

        def slot_jobs(self, runtime: object, on_end: OnEnd) -> ChildSlots:
            return ChildSlots(nursery, self.secrets, on_end)

    return LightDriver(config)


def _work(nursery: Nursery, file: str) -> int:
    from fencepost.cli.serve import serve
    from fencepost.config.properties import read_properties
    from fencepost.config.worker import WorkerConfig
    from fencepost.telemetry.logs import configure_logs

    configure_logs()
    config = WorkerConfig(read_properties(Path(file)))
    failure = serve(config, _driver(nursery, config))
    if failure is not None:
        print(failure, file=sys.stderr)
    return 0 if failure is None else 1


def _mirror(nursery: Nursery, path: str, name: str) -> int:
    from fencepost.cli.mirror import chosen, run_flow
    from fencepost.mirror.dedicated import MirrorFile
    from fencepost.telemetry.logs import configure_logs

    configure_logs()
    file = MirrorFile.load(Path(path))
    (flow,) = chosen(file.flows(), [name], [])
    return run_flow(file, flow, partial(_driver, nursery), None)


def _slot(arguments: list[str]) -> int:
    from fencepost.task.slot import run_slot

    faulthandler.register(signal.SIGUSR1)
    run_slot(arguments[0], 0)
    return 0


def main(arguments: list[str]) -> int:
    """Be a worker until it is told to end: `FILE`, or `--mirror FILE A->B` for a mirror's flow."""
    nursery = Nursery(_slot)
    faulthandler.register(signal.SIGUSR1)
    if arguments[0] == "--mirror":
        return _mirror(nursery, *arguments[1:])
    return _work(nursery, arguments[0])
