"""Whether Spark's executors write to the directory that the driver sees. On a local disk that is not certain.

Where they do not, Spark reports success all the same: each executor has written to a disk of its own, and the driver
finds nothing to show, or not all. Driver side, but for `_Look`.
"""

import os
import socket
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fencepost.api import ConfigError, RetriableError
from fencepost.api.dataframe import DataFrame, Session
from fencepost.builtin.connector.files.store import FilesStore, LocalFiles

_PROBE = "0-probe-"  # if it remains, it is deleted with the files of earlier epochs
_PART, _PARTS = "_fencepost_part", "parts"
_SPREAD_S = 0.2
"""How long each task of the look takes, so that one executor does not run them all."""
_HEARD_S, _POLL_S = 30.0, 0.01
_ADVICE = (
    "executors do not write to the directory that the worker sees. Set it to a directory that is mounted at this "
    "path on all machines, or is on a file system that all of them reach, such as hdfs:// or s3a://"
)


def is_certain(session: Session, store: FilesStore) -> bool:
    """Say whether a directory is the same for driver and executors, on whatever machines these run."""
    return not isinstance(store, LocalFiles) or bool(session.sparkContext._jsc.isLocal())


def ensure_shared(session: Session, store: FilesStore, place: str, key: str) -> None:
    """Raise ConfigError if an executor does not see what the driver writes below a place of the store."""
    if is_certain(session, store) or not isinstance(store, LocalFiles):
        return
    probe = f"{place}/{_PROBE}{uuid.uuid4().hex}"
    store.make(probe)
    try:
        context = session.sparkContext
        count = max(1, int(context.defaultParallelism))
        looks = context.parallelize(range(count), count).mapPartitions(_Look(str(store.path / probe))).collect()
    finally:
        store.remove(probe)
    blind = sorted({host for host, is_there in looks if not is_there})
    if blind:
        raise ConfigError(f"{key}={store.root} is another directory on {', '.join(blind)}: {_ADVICE}")


@dataclass(frozen=True)
class _Look:
    """Returns an executor's host, and whether it sees a path."""

    path: str

    def __call__(self, rows: Iterable[int]) -> Iterator[tuple[str, bool]]:
        time.sleep(_SPREAD_S)
        yield socket.gethostname(), os.path.exists(self.path)


class PartsWithRows:
    """Learns from Spark which row partitions of a frame had rows, while it writes them. Driver side."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._jvm = session._jvm
        self._observation: Any = session._jvm.org.apache.spark.sql.Observation()

    def on(self, frame: DataFrame) -> DataFrame:
        """Return the same frame; its first action is observed."""
        numbered = frame.selectExpr("*", f"spark_partition_id() AS {_PART}")
        parts = self._jvm.org.apache.spark.sql.functions.expr(f"collect_set({_PART})").alias(_PARTS)
        no_more = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq([])
        return type(frame)(numbered._jdf.observe(self._observation, parts, no_more), self._session).drop(_PART)

    def ensure_in(self, found: Collection[int], store: FilesStore, key: str) -> None:
        """Raise ConfigError if a part that had rows has no file among those of the parts `found`."""
        missing = sorted(self._heard() - set(found))
        if missing:
            raise ConfigError(
                f"{key}={store.root}: {len(missing)} of Spark's tasks have written rows, and none of their files is "
                f"there: {_ADVICE}"
            )

    def _heard(self) -> set[int]:
        done, deadline_s = self._observation.future(), time.monotonic() + _HEARD_S
        while not done.isCompleted():  # soon after the action: it comes by way of Spark's listeners
            if time.monotonic() > deadline_s:
                raise RetriableError("Spark did not report which of its tasks wrote rows: the epoch is written again")
            time.sleep(_POLL_S)
        row = self._observation.getAsJava().get(_PARTS)
        return {int(each) for each in self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(row)}
