"""A worker without Spark: everything of it is real, but its slots are plain child processes instead of Spark's.

For tests of what workers do among themselves: it is up in a second or two and costs a tenth. Run it as
`python -m support.light_worker FILE`, that of a mirror's flow as `python -m support.light_worker --mirror FILE A->B`; a
slot as `python -m support.light_worker --slot SPEC ATTEMPT`. On SIGUSR1 all print what their threads do.
"""

import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.config.worker import WorkerConfig
    from fencepost.worker.driver import Driver

OnEnd = Callable[[str, Exception | None], None]


class ChildSlots:
    """The `Jobs` of a `SlotPool`: a child process is a slot."""

    def __init__(self, secrets: dict[str, str], on_end: OnEnd) -> None:
        self._environment = {**os.environ, **secrets}
        self._on_end = on_end
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def launch(self, slot_id: str, spec_json: str) -> None:
        command = [sys.executable, "-m", "support.light_worker", "--slot", spec_json]
        child = self._children[slot_id] = subprocess.Popen(command, env=self._environment)
        threading.Thread(target=self._await, args=(slot_id, child), daemon=True).start()

    def cancel(self, slot_id: str) -> None:
        child = self._children.pop(slot_id, None)
        if child is not None:
            child.kill()

    def stop(self) -> None:
        for slot_id in list(self._children):
            self.cancel(slot_id)

    def _await(self, slot_id: str, child: "subprocess.Popen[bytes]") -> None:
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


def _driver(config: "WorkerConfig") -> "Driver":
    from fencepost.worker.driver import Driver

    class LightDriver(Driver):
        def launch(self) -> None: ...

        def runtime(self) -> LightSpark:
            return LightSpark()

        def slot_jobs(self, runtime: object, on_end: OnEnd) -> ChildSlots:
            return ChildSlots(self.secrets, on_end)

    return LightDriver(config)


def _work(file: str) -> int:
    from fencepost.cli.serve import serve
    from fencepost.config.properties import read_properties
    from fencepost.config.worker import WorkerConfig
    from fencepost.telemetry.logs import configure_logs

    configure_logs()
    config = WorkerConfig(read_properties(Path(file)))
    failure = serve(config, _driver(config))
    if failure is not None:
        print(failure, file=sys.stderr)
    return 0 if failure is None else 1


def _mirror(path: str, name: str) -> int:
    from fencepost.cli.mirror import chosen, run_flow
    from fencepost.mirror.dedicated import MirrorFile
    from fencepost.telemetry.logs import configure_logs

    configure_logs()
    file = MirrorFile.load(Path(path))
    (flow,) = chosen(file.flows(), [name], [])
    return run_flow(file, flow, _driver, None)


def main(arguments: list[str]) -> int:
    faulthandler.register(signal.SIGUSR1)
    if arguments[0] == "--slot":
        from fencepost.task.slot import run_slot

        run_slot(arguments[1], 0)
        return 0
    if arguments[0] == "--mirror":
        return _mirror(*arguments[1:])
    return _work(arguments[0])


if __name__ == "__main__":
    from fencepost.cli.ending import end_process

    end_process(main(sys.argv[1:]))
