"""The client settings that the batch client supports, under librdkafka's names. Others are reported, not ignored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.config import ConfigError
from fencepost.kafka.setting.table import GSSAPI, MECHANISMS

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

_COMPRESSION = "compression.type"
_MOST_ANSWERED_BYTES = 64 << 20  # less than the limit of a frame, which also holds more than batches

_CONNECTING = frozenset({
    "bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password",
    "sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions",
    "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
    "ssl.key.pem", "ssl.key.password", "ssl.endpoint.identification.algorithm",
    "socket.connection.setup.timeout.ms", "socket.timeout.ms", "topic.metadata.refresh.interval.ms",
    "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    "log.connection.close",
})  # fmt: skip
# Settings that it honors, and settings without effect because it never repeats a request and has no lingering thread.
_WRITING = _CONNECTING | frozenset({
    "batch.size", "batch.num.messages", "queue.buffering.max.messages", "queue.buffering.max.kbytes",
    "message.max.bytes", "request.timeout.ms", _COMPRESSION, "transaction.timeout.ms", "transactional.id",
    "delivery.report.only.error", "acks", "request.required.acks", "enable.idempotence", "partitioner",
    "max.in.flight.requests.per.connection", "max.in.flight", "linger.ms", "delivery.timeout.ms",
})  # fmt: skip
# Settings that it honors, and settings of queues, groups and events that it does not need: if there is a group,
# a librdkafka client next to the reader is its member.
_READING = _CONNECTING | frozenset({
    "fetch.wait.max.ms", "fetch.min.bytes", "fetch.max.bytes", "max.partition.fetch.bytes", "isolation.level",
    "message.max.bytes", "fetch.queue.backoff.ms", "queued.min.messages", "auto.offset.reset",
    "allow.auto.create.topics", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof", "group.id",
    "max.poll.interval.ms", "session.timeout.ms", "heartbeat.interval.ms", "check.crcs", "group.protocol",
    "group.instance.id", "partition.assignment.strategy", "receive.message.max.bytes",
})  # fmt: skip


def lacking(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings (librdkafka's names) that the batch client does not support, each with a reason."""
    found = _lacking(conf, _WRITING)
    if str(conf.get(_COMPRESSION, "none")) not in COMPRESSIONS:
        found[_COMPRESSION] = f"the batch client supports {', '.join(COMPRESSIONS)}"
    return found


def lacking_to_read(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return the same for the batch client's partition reader, which takes consumer settings."""
    return _lacking(conf, _READING)


def readable(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a consumer's settings with which the reader sees every record, committed or not."""
    return {key: conf[key] for key in conf if key in _CONNECTING} | {"isolation.level": "read_uncommitted"}


def _lacking(conf: Mapping[str, Any], had: frozenset[str]) -> dict[str, str]:
    found = {key: "the batch client has no such setting" for key in conf if key not in had}
    has_sasl = str(conf.get("security.protocol", "")).upper().startswith("SASL")
    mechanism = str(conf.get("sasl.mechanism", GSSAPI if has_sasl else MECHANISMS[0])).upper()
    if mechanism not in MECHANISMS:
        found["sasl.mechanism"] = f"the batch client supports {', '.join(MECHANISMS)}"
    return found


@dataclass(frozen=True)
class BatchSettings:
    """The batch client's settings, except those for connecting. A batch is full at `batch_bytes` before compression."""

    transactional_id: str
    transaction_timeout_ms: int
    compression: str
    batch_bytes: int
    batch_records: int
    record_bytes: int
    queue_bytes: int
    queue_records: int
    acknowledged_within_ms: int
    metadata_age_s: float

    @classmethod
    def of(cls, conf: Mapping[str, Any]) -> "BatchSettings":
        """Read librdkafka's names; its defaults where there is none. Raises ConfigError, ValueError."""
        if missing := lacking(conf):
            raise ConfigError([f"Invalid value for configuration {key}: {why}" for key, why in missing.items()])
        return cls(
            transactional_id=str(conf["transactional.id"]),
            transaction_timeout_ms=_number(conf, "transaction.timeout.ms", 60_000),
            compression=str(conf.get(_COMPRESSION, "none")),
            batch_bytes=_number(conf, "batch.size", 1_000_000),
            batch_records=_number(conf, "batch.num.messages", 10_000),
            record_bytes=_number(conf, "message.max.bytes", 1_000_000),
            queue_bytes=_number(conf, "queue.buffering.max.kbytes", 1_048_576) * 1024,
            queue_records=_number(conf, "queue.buffering.max.messages", 100_000),
            acknowledged_within_ms=_number(conf, "request.timeout.ms", 30_000),
            metadata_age_s=_number(conf, "topic.metadata.refresh.interval.ms", 300_000) / 1000,
        )


@dataclass(frozen=True)
class FetchSettings:
    """The partition reader's settings, except those for connecting."""

    wait_ms: int
    least_bytes: int
    most_bytes: int
    partition_bytes: int
    is_committed: bool
    metadata_age_s: float

    @classmethod
    def of(cls, conf: Mapping[str, Any]) -> "FetchSettings":
        """Read librdkafka's names; its defaults where there is none. Raises ConfigError, ValueError."""
        if missing := lacking_to_read(conf):
            raise ConfigError([f"Invalid value for configuration {key}: {why}" for key, why in missing.items()])
        return cls(
            wait_ms=_number(conf, "fetch.wait.max.ms", 500),
            least_bytes=_number(conf, "fetch.min.bytes", 1),
            most_bytes=min(_number(conf, "fetch.max.bytes", 52_428_800), _MOST_ANSWERED_BYTES),
            partition_bytes=_number(conf, "max.partition.fetch.bytes", 1_048_576),
            is_committed=str(conf.get("isolation.level", "read_committed")) == "read_committed",
            metadata_age_s=_number(conf, "topic.metadata.refresh.interval.ms", 300_000) / 1000,
        )


def _number(conf: Mapping[str, Any], key: str, default: int) -> int:
    return int(conf.get(key, default))
