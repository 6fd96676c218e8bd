"""Clients of librdkafka, and brokers that are cut off from the others.

librdkafka asks the broker that it used last for metadata, and who coordinates a group. If that broker is cut off, it
names itself for as long as that lasts. So a client does not begin with a broker that is known to be cut off, and has to
be replaced when the coordinator of its group has moved. Also filters the log lines of clients.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from fencepost.api import FencedError
from fencepost.kafka.errors import AnswerError, LostError, UnsupportedError, translate
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import NO_TOPICS_AGE_S, Cluster
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.experience import experience_with

_NOISE = (
    "CONFWARN",  # settings for another kind of client
    "GETPID",  # a coordinator that is still loading; the client retries
)


def library_log(name: str) -> logging.Logger:
    """Return the logger to pass to a client that is created in module `name`."""
    logger = logging.getLogger(f"{name}.librdkafka")
    if not logger.filters:
        logger.addFilter(lambda record: not record.getMessage().startswith(_NOISE))
    return logger


T = TypeVar("T")

_LIVELY = {"socket.timeout.ms": 20_000, "topic.metadata.refresh.interval.ms": 10_000}


def library_conf(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with which a client of librdkafka leaves a broker that hangs or is cut off from the others.

    What the user has set is kept. Its time-out of requests may not exceed that of its transactions.
    """
    most_ms = int(conf.get("transaction.timeout.ms", _LIVELY["socket.timeout.ms"]))
    lively = {key: str(min(value, most_ms)) for key, value in _LIVELY.items()}
    return {**lively, **conf, "bootstrap.servers": sure_servers(conf)}


def sure_servers(conf: Mapping[str, Any]) -> str:
    """Return a client's `bootstrap.servers`: only brokers that were not out of date when two were asked last."""
    given = str(conf.get("bootstrap.servers", ""))
    experience = experience_with(conf)
    sure = [each for each in experience.turns.sure if each in experience.brokers]  # the others are gone by now
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in sure) or given


def new_client(kind: Callable[..., T], conf: Mapping[str, Any], **arguments: Any) -> T:
    """Create a client of the library. Raises KafkaRequestError for settings that it refuses."""
    try:
        return kind(library_conf(conf), **arguments)
    except KafkaException as error:
        raise translate(error, "the settings of a client") from error


log = logging.getLogger(__name__)

_FAILING_S, _LOOK_S, _SOON_S = 5.0, 5.0, 2.0


def close_consumer(consumer: Any) -> None:
    """Close a consumer, whatever state it is in. It raises a SystemError if it has lost what a callback raised."""
    with suppress(KafkaException, RuntimeError, SystemError):
        consumer.close()


def coordinator_node(conf: Mapping[str, Any], group: str, timeout_s: float) -> int | None:
    """Return the node that coordinates a group, on which two brokers agree; None if that cannot be found out now.

    `conf` holds a client's settings in librdkafka's names. Addresses are not compared: a broker may have several.
    """
    try:
        with closing(Cluster(Access.of(conf), NO_TOPICS_AGE_S)) as cluster:
            found = cluster.coordinators.find_all(GROUP, [group], time.monotonic() + timeout_s)[group]
            return None if isinstance(found, AnswerError) else found
    except (AnswerError, LostError, UnsupportedError, ValueError, OSError) as error:
        log.debug("the coordinator of group %s cannot be looked up now: %r", group, error)
        return None


class CommitWatch:
    """Notices that commits fail because the group's coordinator is another broker by now."""

    def __init__(self, conf: Mapping[str, Any], group: str) -> None:
        self._conf = conf
        self._group = group
        self._coordinator: int | None = None
        self._failing_since_s: float | None = None

    def assigned(self) -> None:
        """Record who coordinates the group when it assigns partitions."""
        self._coordinator = coordinator_node(self._conf, self._group, _SOON_S)

    def committed(self) -> None:
        self._failing_since_s = None

    def failed(self) -> None:
        """Record that a commit got no answer. Raises FencedError if another client has to join instead of this one."""
        now_s = time.monotonic()
        self._failing_since_s = self._failing_since_s or now_s
        if now_s - self._failing_since_s < _FAILING_S:
            return
        now = coordinator_node(self._conf, self._group, _LOOK_S)
        if now is not None and now != self._coordinator:
            raise FencedError(f"group {self._group} is coordinated by another broker by now: {now}")
