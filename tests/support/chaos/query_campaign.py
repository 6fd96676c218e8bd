"""Streaming queries that run, are fed, and are hit: what they have shown, how they go on, and the verdict on all."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation
from support.chaos.evidence import Evidence
from support.chaos.query_driver import QueryDriver
from support.chaos.query_input import BLOCK, PARTITIONS, PER_S, QueryInput
from support.chaos.query_log import (
    InputRecord,
    Place,
    QueryVerdict,
    batch_ends,
    expected_batches,
    transactions_of,
    verdict,
)
from support.chaos.query_program import SPARKS_OWN, Given
from support.feed import Feed

WITHIN_S = 300.0
_ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


class Front:
    """How much of the input a query has shown: doubled records count once."""

    def __init__(self, query: str, topic: str, reader: CommittedReader) -> None:
        self.query = query
        self._topic = topic
        self._reader = reader
        self._looked_at = 0
        self._latest: dict[Any, int] = {}

    def reached(self) -> int:
        """Return the number of input records, or of their values, that the output has."""
        new = self._reader.seen_of(self._topic, self._looked_at)
        self._looked_at += len(new)
        for each in new:
            key, count = self._counted(each)
            self._latest[key] = max(count, self._latest.get(key, 0))
        return sum(self._latest.values())

    def _counted(self, seen: Observation) -> tuple[Any, int]:
        return (seen.key, int(seen.value or b"")) if self.query == "counts" else (seen.value, 1)


class QueryCampaign:
    """A context manager. `driver` is the program that runs now; others may live on for a while."""

    def __init__(self, given: Given, directory: Path, feed: QueryInput, chosen: random.Random, evidence: Evidence):
        """`given` has the addresses of source and sink, and Spark's settings; others, and faults, are `chosen`."""
        self.given = given
        self.chosen = chosen
        self.evidence = evidence
        self.drivers: list[QueryDriver] = []
        self._directory = directory
        self._input = feed
        self._next: QueryDriver | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        topics = {query: f"{self.given.topic}-{query}" for query in self.given.queries}
        reader = self._stack.enter_context(CommittedReader(self.given.source, list(topics.values())))
        self.fronts = [Front(query, topic, reader) for query, topic in topics.items()]
        self._reader = reader
        self._admin = TransactionAdmin({"bootstrap.servers": self.given.source}, timeout_s=60.0)
        self._stack.callback(self._admin.close)
        self._ids_before = self.ids()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    @property
    def driver(self) -> QueryDriver:
        return self.drivers[-1]

    def ids(self) -> set[str]:
        """Return all transactional ids that the brokers know."""
        return {each.transactional_id for each in eventually(lambda: (self._admin.list(),), within_s=WITHIN_S)[0]}

    def prepare(self) -> None:
        """Start the program, with settings that may be others each time. Its queries wait for `start`. Idempotent."""
        if self._next is None:
            shuffled = {
                "spark.sql.shuffle.partitions": str(self.chosen.randint(1, 3)),
                "spark.speculation": self.chosen.choice(("true", "false")),
            }
            log = self._directory / f"driver-{len(self.drivers)}.log"
            self._next = QueryDriver(self.given, log, shuffled)
            self._stack.callback(self._next.kill)

    def start(self) -> QueryDriver:
        """Start the program, or the queries of the one that was prepared, and wait until they run."""
        self.prepare()
        assert self._next is not None
        self.drivers.append(self._next)
        self._next = None
        self.driver.go()
        self.driver.await_started()
        return self.driver

    def begin(self) -> None:
        """Feed the queries, and wait until each has shown something."""
        self._feed = Feed(self._input.write, block=BLOCK, per_s=PER_S)
        self._stack.callback(self._feed.stop)
        self.start()
        self.recover()
        self.first_ids = self.ids() - self._ids_before

    def recover(self) -> dict[str, float]:
        """Wait until each query has shown all that was written when this was called. Returns how long each took."""
        return self._await_fronts(self._wanted())

    def _wanted(self) -> Mapping[str, int]:
        assert self._feed.sent >= 0  # or raises why no more is written
        values, records = self._input.values, self._input.records
        return {query: values if query == "unique" else records for query in self.given.queries}

    def _await_fronts(self, wanted: Mapping[str, int]) -> dict[str, float]:
        began_s, took = time.monotonic(), dict[str, float]()

        def are_there() -> bool:
            assert self.driver.is_running
            for front in self.fronts:
                if front.query not in took and front.reached() >= wanted[front.query]:
                    took[front.query] = time.monotonic() - began_s
            return len(took) == len(self.fronts)

        try:
            eventually(are_there, within_s=WITHIN_S)
        except AssertionError as error:
            reached = {front.query: front.reached() for front in self.fronts}
            raise AssertionError(f"{error}: {reached}, {wanted} wanted\n{self.driver.text()[-6000:]}") from None
        return took

    def note(self, what: str, phase: str, took: Mapping[str, float]) -> None:
        """Print a fault, and keep it as evidence."""
        ended = sum(len(driver.failures) for driver in self.drivers)
        figures = ", ".join(f"{query} {s:.1f}" for query, s in took.items())
        print(f"{what} ({phase}): all shown after {figures} s; {ended} ends of queries so far", flush=True)
        self.evidence.fault(what, phase, None, max(took.values()))

    def verdicts(self, server_of: Callable[[Place], str]) -> dict[str, QueryVerdict]:
        """Stop feeding, wait until everything is shown, end all programs, and judge.

        `server_of` returns the address of the leader of a partition.
        """
        self._feed.stop()
        self.recover()
        for driver in self.drivers:
            driver.kill()
        records = self._records()
        self.evidence.records = len(records)
        return {query: self._verdict(query, records, server_of) for query in self.given.queries}

    def ensure_clean(self, verdicts: Mapping[str, QueryVerdict]) -> None:
        """Record and check that all verdicts are clean, and that no transaction is open and no id has been added."""
        unclean = {query: str(each) for query, each in verdicts.items() if not each.is_clean}
        self.evidence.verdict = "; ".join(unclean) or "clean"
        assert not unclean, unclean
        assert self.open_transactions() == []
        assert self.new_ids() == set()

    def _verdict(self, query: str, records: Sequence[InputRecord], server_of: Callable[[Place], str]) -> QueryVerdict:
        topic = f"{self.given.topic}-{query}"
        ends = batch_ends(self._directory / f"{query}-checkpoint", self.given.topic) if query != SPARKS_OWN else []
        batches = expected_batches(query, records, ends or [dict.fromkeys(range(PARTITIONS), 1 << 60)])
        seen = [each for each in self._reader.read_all(WITHIN_S) if each.topic == topic]
        return verdict(query, batches, seen, transactions_of(server_of, [(topic, p) for p in range(PARTITIONS)]))

    def _records(self) -> list[InputRecord]:
        found: list[InputRecord] = []

        def keep(record: LogRecord) -> None:
            found.append(InputRecord(record.partition, record.offset, record.key or b"", record.value or b""))

        reader = LogReader({"bootstrap.servers": self.given.source}, self.given.topic)
        try:
            reader.read_to_end(WITHIN_S, keep)
        finally:
            reader.close()
        return found

    def open_transactions(self) -> list[str]:
        """Return the ids of transactions that have not ended, of all that have come since the campaign began."""
        (found,) = eventually(lambda: (self._admin.list(),), within_s=WITHIN_S)
        return [f"{each.transactional_id}: {each.state}" for each in found if self._is_open(each)]

    def _is_open(self, transaction: Any) -> bool:
        return transaction.transactional_id not in self._ids_before and transaction.state not in _ENDED

    def new_ids(self) -> set[str]:
        """Return the ids that have come since each query has written its first batch."""
        return self.ids() - self._ids_before - self.first_ids
