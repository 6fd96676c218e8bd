"""A Spark standalone cluster on this machine, from the files that PySpark ships: one master, two workers."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from fencepost.testing import eventually
from support.quick import spark_options

_HOME = Path(pyspark.__file__).parent
_PR_SET_PDEATHSIG = 1


@dataclass
class StandaloneCluster:
    """`url` is its spark.master; each of `workers` is a JVM whose children are executors."""

    url: str
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def executor_of(self, pid: int) -> psutil.Process:
        """Return the executor's JVM that a Python process works for."""
        return next(process for process in psutil.Process(pid).parents() if _is_executor(process))

    def executors(self) -> list[psutil.Process]:
        return [
            child for worker in self.workers for child in psutil.Process(worker.pid).children() if _is_executor(child)
        ]


def _is_executor(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    return False


@contextmanager
def standalone(
    directory: Path, *, workers: int = 2, cores: int = 4, are_apart: bool = False
) -> Iterator[StandaloneCluster]:
    """Start a cluster whose workers offer `cores` each; all of it ends with the block, and with this process.

    With `are_apart` each worker has an address of its own: Spark starts no copy of a task on the host of the first one.
    """
    with contextlib.ExitStack() as stack:
        log = directory / "master.log"
        web = ("--webui-port", "0")
        hosts = [f"127.0.0.{n + 1 if are_apart else 1}" for n in range(workers)]
        master = _start(stack, log, "org.apache.spark.deploy.master.Master", "--host", hosts[0], *web, "--port", "0")
        url = eventually(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), within_s=60)[1]
        started = [
            _start(
                stack, directory / f"worker-{n}.log", "org.apache.spark.deploy.worker.Worker", "--host", host, *web,
                "--cores", str(cores), "--memory", "2g", "--work-dir", str(directory / f"work-{n}"), url,
            )
            for n, host in enumerate(hosts)
        ]  # fmt: skip
        for n in range(workers):
            worker_log = directory / f"worker-{n}.log"
            eventually(lambda file=worker_log: "Successfully registered with master" in file.read_text(), within_s=60)
        yield StandaloneCluster(url, master, started)


def _start(stack: contextlib.ExitStack, log: Path, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    quick = f"-XX:+UseSerialGC {spark_options()}"
    environment = os.environ | {
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{quick} -Dlog4j2.level=info -Dlog4j.configurationFile={_log4j(log)}",
    }
    output = stack.enter_context(log.open("wb"))
    command = [str(_HOME / "bin" / "spark-class"), main_class, *arguments]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, preexec_fn=die_with_parent
    )
    stack.callback(end, process)
    return process


def _log4j(log: Path) -> str:
    file = log.with_suffix(".properties")
    file.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\nappender.out.type = Console\n"
        "appender.out.name = out\nappender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %m%n\n"
    )
    return file.as_uri()


def die_with_parent() -> None:
    """End this process, which is about to run another program, with the one that has started it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.wait()
