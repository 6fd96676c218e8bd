"""A worker without Spark: everything of it is real, but its slots are plain child processes instead of Spark's.

For tests of what workers do among themselves: it is up in a second or two and costs a tenth. It is what `main` does in
a process of its own (see `support.forked`). On SIGUSR1 all print what their threads do.
"""

import contextlib
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
    from fencepost.worker.host.driver import Driver

OnEnd = Callable[[str, Exception | None], None]


_KILL_TIMEOUT = "spark.python.task.killTimeout"


class ChildSlots:
    """The `Jobs` of a `SlotPool`: a child process is a slot.

    One that is given up is killed, or left alone for as long as Spark would leave it where `spares`: until it has
    woken up, and ends by itself.
    """

    def __init__(self, nursery: Nursery, secrets: dict[str, str], on_end: OnEnd, *, spares: bool) -> None:
        self._nursery = nursery
        self._environment = {**os.environ, **secrets}
        self._on_end = on_end
        self._spares = spares
        self._children: dict[str, Born] = {}
        self._spared: list[Born] = []

    def launch(self, slot_id: str, spec_json: str) -> None:
        child = self._children[slot_id] = self._nursery.fork([spec_json], self._environment)
        threading.Thread(target=self._await, args=(slot_id, child), daemon=True).start()

    def cancel(self, slot_id: str) -> None:
        child = self._children.pop(slot_id, None)
        if child is None:
            return
        if self._spares:
            self._spared.append(child)
            self._on_end(slot_id, None)  # as of a job of Spark's: at once
        else:
            child.kill()

    def stop(self) -> None:
        self._spares = False
        for slot_id in list(self._children):
            self.cancel(slot_id)
        for child in list(self._spared):
            child.kill()

    def _await(self, slot_id: str, child: Born) -> None:
        code = child.wait()
        was_cancelled = self._children.get(slot_id) is not child
        with contextlib.suppress(ValueError):
            self._spared.remove(child)
        self._on_end(slot_id, None if was_cancelled or code == 0 else RuntimeError(f"the slot ended with {code}"))


class LightSpark:
    """The `KeptRuntime` of a worker that has no Spark, with the cores of `local[N]` or `local[N,1]`."""

    is_alive = True
    jvm_pid = jvm_figures = None
    context = session = None

    def __init__(self, master: str) -> None:
        self.cores = int(master.removeprefix("local[").rstrip("]").partition(",")[0])

    def on_exit(self, listener: Callable[[str], None]) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


def _driver(nursery: Nursery, config: "WorkerConfig") -> "Driver":
    from fencepost.worker.host.driver import Driver

    class LightDriver(Driver):
        def launch(self) -> None: ...

        def runtime(self) -> LightSpark:
            return LightSpark(config.spark.get("spark.master", "local[4]"))

        def slot_jobs(self, runtime: object, on_end: OnEnd, on_leaving: object) -> ChildSlots:
            return ChildSlots(nursery, self.secrets, on_end, spares=_KILL_TIMEOUT in config.spark)

    return LightDriver(config)


def _work(nursery: Nursery, file: str) -> int:
    from fencepost.cli.client import read_worker_file
    from fencepost.cli.cluster.serve import serve
    from fencepost.config.worker import WorkerConfig
    from fencepost.telemetry.logs import configure_logs

    configure_logs()
    config = WorkerConfig(read_worker_file(Path(file)))
    failure = serve(config, _driver(nursery, config))
    if failure is not None:
        print(failure, file=sys.stderr)
    return 0 if failure is None else 1


def _mirror(nursery: Nursery, path: str, name: str) -> int:
    from fencepost.builtin.mirror.dedicated import MirrorFile
    from fencepost.cli.cluster.mirror_run import chosen, run_flow
    from fencepost.telemetry.logs import configure_logs

    configure_logs()
    file = MirrorFile.load(Path(path))
    (flow,) = chosen(file.flows(), [name], [])
    return run_flow(file, flow, partial(_driver, nursery), None)


def _slot(arguments: list[str]) -> int:
    from fencepost.task.slot.slot import run_slot

    faulthandler.register(signal.SIGUSR1)
    run_slot(arguments[0], 0)
    return 0


def main(arguments: list[str]) -> int:
    """Run a worker until it is asked to end: `FILE`, or `--mirror FILE A->B` for the flow of a mirror."""
    nursery = Nursery(_slot)
    faulthandler.register(signal.SIGUSR1)
    if arguments[0] == "--mirror":
        return _mirror(nursery, *arguments[1:])
    return _work(nursery, arguments[0])
