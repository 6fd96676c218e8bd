"""The two sides of the comparison: what Kafka Connect 4.3.1 did in the scenario, and what our worker does."""

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from answers import difference
from replay import Exchange, Offsets, Replay

from fencepost.testing import eventually
from oracle.scenario import dump, run
from support.cluster import WorkerOfRun

FIXTURES = Path(__file__).parents[2] / "fixtures" / "connect-4.3.1"
GROUP = "interchange"
TOPICS = {"config": f"{GROUP}-configs", "offset": f"{GROUP}-offsets", "status": f"{GROUP}-status"}
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"

# What the recorded worker ran with, and its numbers of partitions, on which those of records depend.
SETTINGS = {
    "key.converter": JSON_CONVERTER,
    "value.converter": JSON_CONVERTER,
    "offset.flush.interval.ms": "1000",
    "offset.storage.partitions": "25",
    "status.storage.partitions": "5",
    "spark.master": "local[8]",
    "slots.max": "2",
}


# No exchange is about Spark.


class Side(NamedTuple):
    """The answers and records of one of the two workers."""

    exchanges: list[Exchange]
    topics: dict[str, Any]


def recorded() -> Side:
    """Kafka Connect 4.3.1, once."""
    read = {name: json.loads((FIXTURES / f"{name}.json").read_text()) for name in ("rest", *TOPICS)}
    return Side(read.pop("rest"), read)


def drive(bootstrap_servers: str, recorded: list[Exchange], directory: Path) -> Side:
    """Our worker, driven in `directory`; it has stopped afterwards."""
    worker = WorkerOfRun(bootstrap_servers, directory, SETTINGS, group=GROUP)
    with contextlib.chdir(directory):  # where the scenario's relative file names start
        worker.launch()
    try:
        eventually(lambda: worker.rest.get("/health").status_code == 200, within_s=240)
        offsets = Offsets(bootstrap_servers, TOPICS["offset"])
        rest = Replay(f"http://127.0.0.1:{worker.port}", recorded, difference, offsets, worker.log_text)
        run(rest, directory, bootstrap_servers)
        offsets.close()
    except AssertionError:
        print(worker.log_text()[-4000:])
        raise
    finally:
        worker.stop()  # gracefully, so that the last states are written
    return Side(rest.exchanges, dump(bootstrap_servers, TOPICS))
