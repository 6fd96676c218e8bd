"""Writers of single records outside transactions: states, orders, statuses."""

import contextlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from fencepost.kafka.errors import KafkaUnavailableError, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.setting.table import JAVAS_PARTITIONER
from fencepost.kafka.wire.library_client import library_log, new_client

LOG = logging.getLogger(__name__)
_BACKOFF_S = 1.0
_CONNECT_S = 1.0

KeyValue = tuple[bytes, bytes | None]
KeyValueTime = tuple[bytes, bytes | None, int]
Headed = tuple[bytes, bytes | None, int, Sequence[tuple[str, bytes]]]
Written = Iterable[KeyValue] | Sequence[KeyValueTime] | Sequence[Headed]


class RecordWriter:
    """An idempotent producer for one topic. A record is written once, however often it is sent.

    Thread-safe: callers take turns.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str, *, partition: int = -1) -> None:
        """Create a writer. All records go to `partition`; if it is -1, a record's key chooses the partition."""
        self._guard = ForkGuard()
        self._partition = partition
        self._conf = {**conf, **_GUARANTEES}
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._topic = topic
        self._lock = threading.Lock()
        self._producer: Any = None

    def write(self, records: Written, timeout_s: float) -> None:
        """Write records, and return when all in-sync replicas have acknowledged them. Records of a key stay in order.

        A record may have its own timestamp in milliseconds (0 means now) and headers. Raises KafkaUnavailableError if
        this takes longer than `timeout_s`; the records may still have been written. Other errors mean that at least one
        record was refused.
        """
        self._guard.check(f"The writer of topic {self._topic}")
        with self._lock:
            failures, left = self._send(records, timeout_s)
            if left:
                self._abandon()
                raise KafkaUnavailableError(
                    f"Topic {self._topic} did not acknowledge {left} records within {timeout_s:g} s "
                    f"(bootstrap.servers={self._bootstrap}); they may still have been written."
                )
            if failures:
                if failures[0].fatal():
                    self._producer = None
                raise translate(failures[0], f"writing to topic {self._topic}", self._bootstrap)

    def close(self) -> None:
        """Close the producer. Idempotent; a later write opens it again."""
        self._guard.check(f"The writer of topic {self._topic}")
        with self._lock:
            self._abandon()

    def _send(self, records: Written, timeout_s: float) -> tuple[list[Any], int]:
        if self._producer is None:
            self._producer = _connected(self._conf, self._topic)
        failures: list[Any] = []
        try:
            for key, value, *more in records:
                self._producer.produce(
                    self._topic,
                    key=key,
                    value=value,
                    partition=self._partition,
                    timestamp=more[0] if more else 0,
                    headers=more[1] if len(more) > 1 else None,
                    on_delivery=_collector(failures),
                )
            return failures, self._producer.flush(timeout_s)
        except (KafkaException, SystemError) as error:
            # Delivery reports do not include a fatal error; the client raises it, or a SystemError.
            self._producer = None
            raise translate(error.__cause__ or error, f"writing to topic {self._topic}", self._bootstrap) from error

    def _abandon(self) -> None:
        if self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(0)
            self._producer = None


class LatestWriter:
    """Writes the latest value of each key to a topic in the background. It retries without a time limit.

    A value that is superseded before it is sent is never written. Values of a key are never reordered: a batch is sent
    only after the previous one was acknowledged or refused.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        self._guard = ForkGuard()
        self._topic = topic
        self._conf = {**conf, **_GUARANTEES, "message.timeout.ms": 0}
        self._changed = threading.Condition()
        self._waiting: dict[bytes, bytes | None] = {}
        self._sending = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the background thread. Raises KafkaRequestError for settings that the client refuses."""
        first = [_connected(self._conf, self._topic)]  # in a list, as a thread keeps its arguments until it ends
        self._thread = threading.Thread(target=self._run, args=[first], name=f"write-{self._topic}", daemon=True)
        self._thread.start()

    def put(self, key: bytes, value: bytes | None) -> None:
        """Queue a value. Never waits, and never raises Kafka's errors."""
        self._guard.check(f"The writer of topic {self._topic}")
        with self._changed:
            self._waiting.pop(key, None)  # So that keys go out in the order of their latest values.
            self._waiting[key] = value
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing is left to write; False if `timeout_s` was not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._sending, timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Write what is queued, for at most `timeout_s`, and stop. Idempotent."""
        if self._thread is not None and self._thread.is_alive():
            if not self.flush(timeout_s):
                LOG.warning("Topic %s: %d values were not written", self._topic, len(self._waiting) + self._sending)
            self._stopping.set()
            with self._changed:
                self._changed.notify_all()
            self._thread.join(2.0)

    def _run(self, first: list[Any]) -> None:
        producer = first.pop()
        while batch := self._take():
            failed, fatal = self._send(producer, batch)
            with self._changed:
                for key, value in failed.items():
                    self._waiting.setdefault(key, value)
                self._sending = 0
                self._changed.notify_all()
            if fatal:
                # Its queue must not be written later than newer values of the same keys.
                producer.purge(in_queue=True, in_flight=True, blocking=False)
                producer = new_client(Producer, self._conf, logger=library_log(__name__))
            if failed:
                self._stopping.wait(_BACKOFF_S)
        producer.purge(in_queue=True, in_flight=True, blocking=False)
        producer.flush(0)

    def _take(self) -> dict[bytes, bytes | None]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping.is_set())
            if self._stopping.is_set():
                return {}
            batch, self._waiting = self._waiting, {}
            self._sending = len(batch)
            return batch

    def _send(self, producer: Any, batch: Mapping[bytes, bytes | None]) -> tuple[dict[bytes, bytes | None], bool]:
        failures: list[Any] = []
        refused: dict[bytes, bytes | None] = {}
        try:
            for key, value in batch.items():
                producer.produce(self._topic, key=key, value=value, on_delivery=_collector(failures, refused))
            while producer.flush(0.2) and not self._stopping.is_set():
                pass
        except (KafkaException, SystemError, BufferError) as error:
            LOG.warning("Topic %s: a new producer is needed: %s", self._topic, str(error.__cause__ or error))
            return dict(batch), True
        if failures:
            why = f"{failures[0].str()} ({failures[0].name()})"
            LOG.warning("Topic %s refused %d values; trying again: %s", self._topic, len(failures), why)
        return refused, any(error.fatal() for error in failures)


_GUARANTEES = {
    "acks": "all",
    "enable.idempotence": True,
    **JAVAS_PARTITIONER,
    "linger.ms": 0,
}


def _connected(conf: Mapping[str, Any], topic: str) -> Any:
    """Return a producer, connected if a connection succeeds soon.

    An idempotent producer first requests its id. If it is not connected then, it retries only half a second later.
    """
    producer = new_client(Producer, conf, logger=library_log(__name__))
    with contextlib.suppress(KafkaException):
        producer.list_topics(topic, timeout=_CONNECT_S)
    return producer


def _collector(failures: list[Any], refused: dict[bytes, bytes | None] | None = None) -> Any:
    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failures.append(error)
            if refused is not None:
                refused[message.key()] = message.value()

    return delivered
