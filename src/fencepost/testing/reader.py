"""A `read_committed` reader that follows topics during faults, and can read the topics again afterwards."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.testing.verdict import Observation, eventually

_POLL_S = 0.2
_WAIT_MS = 250  # how often an idle topic is fetched, and how late its end is noticed
_RETRY_S = 0.2


class CommittedReader:
    """Reads topics as an application would, from their beginning, in a thread for each; commits nothing.

    A context manager. It waits for topics that do not exist yet, and for an unreachable broker. Any other error ends
    the thread and is raised by `seen` and `catch_up`, so that no test passes because its reader died.

    >>> from fencepost.testing import CommittedReader
    >>> with CommittedReader(bootstrap, ["lines"]) as reader:
    ...     values = [seen.value for seen in reader.catch_up()]
    """

    def __init__(self, bootstrap: str, topics: Sequence[str], conf: Mapping[str, Any] | None = None) -> None:
        self._conf = {"reconnect.backoff.max.ms": 1000, **(conf or {}), "bootstrap.servers": bootstrap}
        self._watches = [_Watch(self._conf, topic) for topic in topics]

    def __enter__(self) -> "CommittedReader":
        for watch in self._watches:
            watch.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        for watch in self._watches:
            watch.stop.set()
        for watch in self._watches:
            watch.thread.join()

    def seen(self) -> list[Observation]:
        """Return all records that are visible so far, in the order of each topic partition."""
        return [observation for watch in self._watches for observation in watch.so_far()]

    def seen_of(self, topic: str, start: int = 0) -> list[Observation]:
        """Return the visible records of a topic after the first `start`, for repeated calls."""
        return next(watch for watch in self._watches if watch.topic == topic).so_far(start)

    def catch_up(self, within_s: float = 30.0) -> list[Observation]:
        """Wait until everything in the log at the call was read, open transactions included, and return `seen`."""
        for watch in self._watches:
            watch.catch_up(within_s)
        return self.seen()

    def read_all(self, within_s: float = 60.0) -> list[Observation]:
        """Read all visible records again, from the beginning to the end at the call, with other consumers."""
        return [o for watch in self._watches for o in read_committed(self._conf, watch.topic, within_s)]


class _Watch:
    """One topic and the thread that reads it."""

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        self.topic = topic
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"reader-{topic}", daemon=True)
        self._conf = conf
        self._reader = LogReader(conf, topic, fetch_wait_ms=_WAIT_MS)
        self._seen: list[Observation] = []
        self._is_reading = False
        self._error: Exception | None = None

    def so_far(self, start: int = 0) -> list[Observation]:
        if self._error is not None:
            raise self._error
        return self._seen[start:]

    def catch_up(self, within_s: float) -> None:
        eventually(lambda: self._is_reading or self._error, within_s=within_s)
        ends = eventually(lambda: self._reader.ends(5.0), within_s=within_s)
        eventually(lambda: self._error or not self._reader.unread(ends), within_s=within_s)

    def _run(self) -> None:
        try:
            self._start()
            while not self.stop.is_set():
                self._reader.poll(self._take, _POLL_S)
        except Exception as error:  # raised by `so_far`, in the thread of the test
            self._error = error
        finally:
            self._reader.close()

    def _start(self) -> None:
        while not self.stop.is_set():
            try:
                self._reader.start(5.0)
                self._is_reading = True
                return
            except (KafkaUnavailableError, KafkaRequestError):
                self.stop.wait(_RETRY_S)

    def _take(self, record: LogRecord) -> None:
        self._seen.append(Observation(self.topic, record.partition, record.key, record.value))


def read_committed(conf: Mapping[str, Any], topic: str, within_s: float) -> list[Observation]:
    """Return the visible records of a topic, from its beginning to its end at the call."""
    found: list[Observation] = []
    with closing(LogReader(conf, topic)) as reader:
        reader.read_to_end(within_s, lambda r: found.append(Observation(topic, r.partition, r.key, r.value)))
    return found
