"""Makes clients of librdkafka that do not begin with a broker that is known to be cut off, and filters their log
lines.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from fencepost.kafka.errors import translate
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
    """Return a client's `bootstrap.servers`: only brokers that were not out of date when two were asked last.

    librdkafka asks the broker that it used last for metadata, so one that begins with a broker that is cut off from the
    others never leaves it.
    """
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
