"""A sampling profiler for every Python process below a bench: `python -m bench ... --profile DIRECTORY`.

Python imports a module of this name at its start. Every 10 ms each thread's stack is charged with the processor time
that the thread has used since the last look. Every 10 s `DIRECTORY/<pid>.txt` gets a window: what functions have used
by themselves, and with all they called. What threads without a Python stack use (librdkafka's) is not seen; the
difference to the process's whole time tells it.
"""

import collections
import os
import sys
import threading
import time
from types import FrameType

DIRECTORY_VARIABLE = "FENCEPOST_BENCH_PROFILE"
_EVERY_S = 0.01
_WINDOW_S = 10.0
_SHOWN = 25
_LEAST_S = 0.05


class Sampler(threading.Thread):
    """Runs as long as the process; a process that was forked later starts one of its own."""

    def __init__(self, directory: str) -> None:
        super().__init__(name="bench-sampler", daemon=True)
        self._path = os.path.join(directory, f"{os.getpid()}.txt")
        self._used: dict[int, float] = {}
        self._own: collections.Counter[str] = collections.Counter()
        self._with_callees: collections.Counter[str] = collections.Counter()

    def run(self) -> None:
        while True:
            began, spent = time.monotonic(), time.process_time()
            while time.monotonic() - began < _WINDOW_S:
                time.sleep(_EVERY_S)
                for ident, frame in sys._current_frames().items():
                    if ident != self.ident:
                        self._charge(ident, frame)
            self._write(time.process_time() - spent)

    def _charge(self, ident: int, frame: FrameType) -> None:
        try:
            used = time.clock_gettime(time.pthread_getcpuclockid(ident))
        except OSError:  # it has ended
            return
        share = used - self._used.get(ident, used)
        self._used[ident] = used
        if share <= 0:
            return
        self._own[_name(frame)] += share  # type: ignore[assignment]
        seen: set[str] = set()
        walked: FrameType | None = frame
        while walked is not None:
            seen.add(_name(walked))
            walked = walked.f_back
        for name in seen:
            self._with_callees[name] += share  # type: ignore[assignment]

    def _write(self, spent_s: float) -> None:
        charged = sum(self._own.values())
        if spent_s > _LEAST_S:
            with open(self._path, "a") as out:
                out.write(
                    f"== {time.strftime('%H:%M:%S')} {sys.argv[:3]}: {spent_s:.2f} s, {charged:.2f} s in Python\n"
                )
                for title, counter in (("by itself", self._own), ("with callees", self._with_callees)):
                    out.write(f"-- {title}\n")
                    out.writelines(f"{seconds:7.2f} {name}\n" for name, seconds in counter.most_common(_SHOWN))
        self._own.clear()
        self._with_callees.clear()


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{'/'.join(code.co_filename.split('/')[-3:])}:{frame.f_lineno} {code.co_qualname}"


def _start() -> None:
    Sampler(os.environ[DIRECTORY_VARIABLE]).start()


if DIRECTORY_VARIABLE in os.environ:
    _start()
    os.register_at_fork(after_in_child=_start)
