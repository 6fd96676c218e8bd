"""The worker's part of a split's run: a real channel that admits everybody and knows the committed positions."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from fencepost.api import DataFrameConnector, Split
from fencepost.kafka.read.log import LogReader
from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.split.splits import SplitReader, run_splits
from fencepost.storage.offset_topic import encode_key
from fencepost.worker.channel import ChannelServer

CONNECTOR = "files"
NO_SCHEMA = {"value.converter.schemas.enable": "false"}


class SplitWorker:
    """Runs splits of one connector the way a worker does, without its loops."""

    def __init__(self, runtime: SparkRuntime, bootstrap: str, topic: str, rows_per_commit: int = 0) -> None:
        self.runtime = runtime
        self.bootstrap = bootstrap
        self.topic = topic
        self.rows_per_commit = rows_per_commit
        self.producer_conf = {"bootstrap.servers": bootstrap}
        self.reports: list[dict[str, Any]] = []
        self.expired: list[float] = []
        self.troubles: list[str] = []
        self.chooses_client = True
        self.headers: list[tuple[str, str]] = []  # of a trace
        self.commits_s: list[float] = []
        self.positions: list[list[Any]] = []  # that were told, at each admission
        self.admissions = 0
        self.unchanged: Iterator[bool] = itertools.repeat(True)
        self._splits: Sequence[Split] = ()
        self.server: ChannelServer | None = None
        self._task: tuple[Any, ...] = ()
        self._reader: SplitReader | None = None

    def handlers(self) -> dict[str, Any]:
        return {
            "/split/spec": self._spec,
            "/split/admit": self._admit,
            "/split/unchanged": lambda body: {"is_unchanged": next(self.unchanged)},
            "/split/report": self._report,
            "/split/expired": lambda body: self.expired.append(body["after_s"]) or {},
            "/split/trouble": lambda body: self.troubles.append(body["reason"]) or {},
        }

    def run(self, connector: DataFrameConnector, *splits: Split, **properties: str) -> dict[str, Any]:
        """Run splits, together if there are several, to their end and return what their executor reported."""
        assert self.server is not None
        self._splits = splits
        reader = self.reader(connector, **properties)
        run_splits(self.runtime, reader, splits, self.server.url, f"run-{len(self.reports)}-{self.admissions}")
        return self.reports[-1]

    def reader(self, connector: DataFrameConnector, **properties: str) -> SplitReader:
        """Return a new one for each task, which a connector object stands for here."""
        if self._task != (connector, properties):
            self._task, self._reader = (connector, properties), SplitReader(connector, NO_SCHEMA | properties)
        assert self._reader is not None
        return self._reader

    def offsets(self) -> dict[bytes, Any]:
        """Return the committed offsets, by key."""
        found: dict[bytes, Any] = {}
        reader = LogReader({"bootstrap.servers": self.bootstrap}, f"{self.topic}-offsets")
        reader.read_to_end(30, lambda record: found.update({record.key or b"": orjson.loads(record.value or b"null")}))
        reader.close()
        return found

    def _spec(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "run": body["run"],
            "producer_conf": self.producer_conf,
            "topic": self.topic,
            "offsets_topic": f"{self.topic}-offsets",
            "offset_keys": [encode_key(CONNECTOR, split.partition).decode() for split in self._splits],
            "transactional_id": f"{self.topic}-0",
            "rows_per_commit": self.rows_per_commit,
            "chooses_client": self.chooses_client,
        }

    def _admit(self, body: dict[str, Any]) -> dict[str, Any]:
        self.admissions += 1
        offsets = self.offsets()
        positions = [offsets.get(encode_key(CONNECTOR, split.partition)) for split in self._splits]
        self.positions.append(positions)
        return {"is_admitted": True, "reason": "", "positions": positions, "headers": self.headers}

    def _report(self, body: dict[str, Any]) -> dict[str, Any]:
        self.commits_s.append(body.pop("commit_s"))
        self.reports.append(body)
        return {}


@contextmanager
def serving(worker: SplitWorker, secret: str) -> Iterator[SplitWorker]:
    worker.server = ChannelServer(secret.encode())
    worker.server.start(worker.handlers())
    try:
        yield worker
    finally:
        worker.server.stop()
