"""Quix Streams from Kafka to Kafka, exactly once, in as many processes as there are cores.

Runs as a process of its own, by the Python of `bench.query_peers`: `python -m bench.quix_query BOOTSTRAP CORES` reads
orders from its standard input: what to do, topics, a directory for state and the milliseconds between commits, with
tabs between. Each is answered when it has begun, and ends with the next line.
"""

import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from quixstreams import Application

_COUNT, _FOLLOW = "count", "follow"


def main(bootstrap: str, cores: str) -> None:
    """Do what comes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed is no answer
    print("ready", file=answers, flush=True)
    begun: list[BaseProcess] = []
    for order in sys.stdin:
        for process in begun:
            process.terminate()
        for process in begun:
            process.join()
        begun = []
        if order.strip():
            words = order.rstrip("\n").split("\t")
            forked = multiprocessing.get_context("fork")
            begun = [forked.Process(target=_run, args=(bootstrap, number, *words)) for number in range(int(cores))]
            for process in begun:
                process.start()
        print("done", file=answers, flush=True)


def _run(bootstrap: str, number: int, what: str, source: str, target: str, directory: str, interval_ms: str) -> None:
    """Be one of the group's members. Its end is a SIGTERM."""
    application = Application(
        broker_address=bootstrap,
        consumer_group=target,
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
        commit_interval=int(interval_ms) / 1000,
        consumer_poll_timeout=0.1,
        consumer_extra_config={"isolation.level": "read_committed"},
        producer_extra_config={"linger.ms": 0 if what == _FOLLOW else 50, "batch.size": 131072},
        state_dir=Path(directory) / str(number),
        loglevel="WARNING",
    )
    as_bytes = {f"{kind}_{part}": "bytes" for kind in ("key", "value") for part in ("serializer", "deserializer")}
    rows = application.dataframe(application.topic(source, **as_bytes))
    rows = rows.apply(_counted, stateful=True) if what == _COUNT else rows.apply(bytes.upper)
    rows.to_topic(application.topic(target, **as_bytes))
    application.run()


def _counted(_: bytes, state: Any) -> bytes:
    count: int = state.get("count", 0) + 1
    state.set("count", count)
    return b"%d" % count


if __name__ == "__main__":
    main(*sys.argv[1:])
