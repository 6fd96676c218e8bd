"""The one table of client settings: Kafka's Java names and librdkafka's names.

`RULES` translates settings. `GUARDED` lists those that would break a guarantee, `NO_COUNTERPART` those that librdkafka
does not have. Client libraries have Kerberos (GSSAPI) only where they were built with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.util import find_spec

from fencepost.guide import guide

GSSAPI = "GSSAPI"
"""The mechanism of Kerberos; that of SASL where none is set."""


@cache
def why_no_kerberos() -> str | None:
    """Return what is missing for Kerberos, and what to do instead; None if nothing is missing."""
    lacking = [*(() if _is_built_in() else ("a librdkafka that was built with it, as that of PyPI was not",)),
               *(() if find_spec("gssapi") else ("the Python package gssapi",))]  # fmt: skip
    if not lacking:
        return None
    return (
        f"Kerberos ({GSSAPI}, also where no mechanism is set) needs {', and '.join(lacking)}. Set SCRAM-SHA-512, "
        "OAUTHBEARER or PLAIN, or use TLS with a client certificate: brokers can take one of them beside Kerberos "
        f"({guide('how-to/secure-clients#kerberos')})"
    )


def _is_built_in() -> bool:
    from confluent_kafka import Consumer, KafkaException  # translating settings does without the library

    try:
        Consumer({"group.id": "-", "builtin.features": "sasl_gssapi"}).close()
    except KafkaException:
        return False
    return True


CLIENT = "fencepost.client"
"""The key in a producer's settings that selects its client. It is not passed to any client."""
DIGESTS = "fencepost.digests"
"""The key in a producer's settings that makes the batch client keep digests of what it writes, for the ledger. Its
value has the topics that are left out."""
AUTO, BATCH, LIBRDKAFKA = CLIENTS = ("auto", "batch", "librdkafka")

JAVAS_PARTITIONER = {"partitioner": "murmur2_random"}
"""Assigns a key to the partition that Java's clients and the batch client use: consumers rely on a key's partition."""

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms of the wire client."""


class ClientKind(Enum):
    """The three kinds of clients."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


@dataclass(frozen=True)
class SettingRule:
    target: str
    convert: Callable[[str], str]
    kinds: frozenset[ClientKind]


def _same(value: str) -> str:
    return value


def _boolean(value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return value.lower()


def _whole(low: int, high: int = (1 << 31) - 1) -> Callable[[str], str]:
    """Return a converter of whole numbers. Numbers beyond a limit of the library become that limit."""

    def convert(value: str) -> str:
        try:
            return str(min(max(int(value), low), high))
        except ValueError:
            raise ValueError("it must be a whole number") from None

    return convert


def _milliseconds(value: str) -> str:
    try:
        return str(float(value)) if float(value) >= 0 else "0"
    except ValueError:
        raise ValueError("it must be a number of milliseconds") from None


def _offset_reset(value: str) -> str:
    resets = {"earliest": "earliest", "latest": "latest", "none": "error"}
    if value.lower() not in resets:
        raise ValueError(f"it must be one of {', '.join(resets)}")
    return resets[value.lower()]


_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def _assignors(value: str) -> str:
    """Keep the assignors of the first one's kind, as Java does: eager and cooperative ones cannot be mixed."""
    names = [part.strip().rpartition(".")[2] for part in value.split(",")]
    known = [_ASSIGNORS.get(name, name) for name in names]
    if unknown := [name for name in known if name not in _ASSIGNORS.values()]:
        raise ValueError(f"there is no {unknown[0]}; there are {', '.join(_ASSIGNORS)}")
    cooperative = known[0] == "cooperative-sticky"
    return ",".join(name for name in known if (name == "cooperative-sticky") is cooperative)


_P, _C, _A = (frozenset({kind}) for kind in ClientKind)
_ALL = _P | _C | _A
RULES: dict[str, list[SettingRule]] = {}


def _rule(
    name: str, kinds: frozenset[ClientKind], convert: Callable[[str], str] = _same, target: str | None = None
) -> None:
    RULES.setdefault(name, []).append(SettingRule(target or name, convert, kinds))


_rule("bootstrap.servers", _ALL)
_rule("client.id", _ALL)
_rule("client.dns.lookup", _ALL)
_rule("client.rack", _C)
_rule("enable.metrics.push", _ALL, _boolean)
_rule("metadata.recovery.strategy", _ALL, str.lower)
_rule("metadata.recovery.rebootstrap.trigger.ms", _ALL, _whole(0))
_rule("metadata.max.age.ms", _ALL, _whole(-1, 3_600_000), "topic.metadata.refresh.interval.ms")
_rule("connections.max.idle.ms", _ALL, _whole(0))
_rule("socket.connection.setup.timeout.ms", _ALL, _whole(1_000))
_rule("reconnect.backoff.ms", _ALL, _whole(0, 3_600_000))
_rule("reconnect.backoff.max.ms", _ALL, _whole(0, 3_600_000))
_rule("retry.backoff.ms", _ALL, _whole(1, 300_000))
_rule("retry.backoff.max.ms", _ALL, _whole(1, 300_000))
_rule("send.buffer.bytes", _ALL, _whole(0, 100_000_000), "socket.send.buffer.bytes")
_rule("receive.buffer.bytes", _ALL, _whole(0, 100_000_000), "socket.receive.buffer.bytes")
# For a producer this is the time in which the broker must acknowledge; socket.timeout.ms follows the transaction's.
_rule("request.timeout.ms", _P, _whole(1, 900_000))
_rule("request.timeout.ms", _C | _A, _whole(10, 300_000), "socket.timeout.ms")

_rule("security.protocol", _ALL, str.lower)
_rule("sasl.mechanism", _ALL)
_rule("sasl.kerberos.service.name", _ALL)
_rule("sasl.oauthbearer.token.endpoint.url", _ALL)
_rule("sasl.oauthbearer.client.credentials.client.id", _ALL, target="sasl.oauthbearer.client.id")
_rule("sasl.oauthbearer.client.credentials.client.secret", _ALL, target="sasl.oauthbearer.client.secret")
_rule("sasl.oauthbearer.scope", _ALL)
_rule("sasl.oauthbearer.extensions", _ALL)

_rule("linger.ms", _P, _milliseconds)
_rule("batch.size", _P, _whole(1))
_rule(
    "buffer.memory",
    _P,
    lambda value: str(max(1, int(_whole(1, 1 << 40)(value)) // 1024)),
    "queue.buffering.max.kbytes",
)
_rule("max.request.size", _P, _whole(1_000, 1_000_000_000), "message.max.bytes")
_rule("compression.type", _P, str.lower)
for _codec in ("gzip", "lz4", "zstd"):
    _rule(f"compression.{_codec}.level", _P, _whole(-1, 12), "compression.level")
_rule("delivery.timeout.ms", _P, _whole(1))
_rule("transaction.timeout.ms", _P, _whole(1_000))

_rule("auto.offset.reset", _C, _offset_reset)
_rule("fetch.min.bytes", _C, _whole(1, 100_000_000))
_rule("fetch.max.bytes", _C, _whole(1_000))
_rule("fetch.max.wait.ms", _C, _whole(0, 300_000), "fetch.wait.max.ms")
_rule("max.partition.fetch.bytes", _C, _whole(1, 1_000_000_000))
_rule("max.poll.interval.ms", _C, _whole(1, 86_400_000))
_rule("session.timeout.ms", _C, _whole(1, 3_600_000))
_rule("heartbeat.interval.ms", _C, _whole(1, 3_600_000))
_rule("partition.assignment.strategy", _C, _assignors)
_rule("group.instance.id", _C)
_rule("group.protocol", _C, str.lower)
_rule("group.remote.assignor", _C)
_rule("check.crcs", _C, _boolean)
_rule("allow.auto.create.topics", _C, _boolean)

# Harmless, useful settings that only librdkafka has. No others are passed through.
for _name in ("broker.address.family", "socket.keepalive.enable", "socket.nagle.disable", "statistics.interval.ms",
              "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
              "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.crl.location"):  # fmt: skip
    _rule(_name, _ALL)
for _name in ("queue.buffering.max.messages", "queue.buffering.max.kbytes", "batch.num.messages"):
    _rule(_name, _P)
for _name in ("queued.min.messages", "queued.max.messages.kbytes"):
    _rule(_name, _C)

_STRIKES = "the runtime has to see every lost connection and time-out to know when to fence its own producer"
_NOTHING_LOST = "a record that was sent must be acknowledged by all replicas, in order, once"


@dataclass(frozen=True)
class Guard:
    """A setting that is accepted only with one of its `harmless` values."""

    kinds: frozenset[ClientKind]
    why: str
    harmless: tuple[str, ...] = ()


_OURS_TO_COMMIT = "positions are committed by the runtime, once records are safe"
GUARDED = {
    "transactional.id": Guard(_P, "every task has an id of its own, by which its predecessor is fenced"),
    "enable.idempotence": Guard(_P, _NOTHING_LOST, ("true",)),
    "acks": Guard(_P, _NOTHING_LOST, ("all", "-1")),
    "request.required.acks": Guard(_P, _NOTHING_LOST, ("all", "-1")),
    "retries": Guard(_P, f"{_NOTHING_LOST}; delivery.timeout.ms bounds the time"),
    "message.send.max.retries": Guard(_P, f"{_NOTHING_LOST}; delivery.timeout.ms bounds the time"),
    "max.in.flight.requests.per.connection": Guard(_P, _NOTHING_LOST, ("1", "2", "3", "4", "5")),
    "max.in.flight": Guard(_P, _NOTHING_LOST, ("1", "2", "3", "4", "5")),
    "message.timeout.ms": Guard(_P, "records of an open transaction must not expire by themselves"),
    "socket.timeout.ms": Guard(_ALL, "it is tied to the time-out of transactions"),
    "log_level": Guard(_ALL, _STRIKES),
    "log.connection.close": Guard(_ALL, _STRIKES, ("true",)),
    "isolation.level": Guard(_C, "records of aborted transactions must stay invisible", ("read_committed",)),
    "group.id": Guard(_C, "the runtime names its groups itself"),
    "enable.auto.commit": Guard(_C, _OURS_TO_COMMIT, ("false",)),
    "enable.auto.offset.store": Guard(_C, _OURS_TO_COMMIT, ("false",)),
}

NO_COUNTERPART = {
    "max.block.ms", "partitioner.class", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "key.serializer", "value.serializer", "key.deserializer",
    "value.deserializer", "interceptor.classes", "metric.reporters", "metrics.num.samples",
    "metrics.recording.level", "metrics.sample.window.ms", "auto.include.jmx.reporter", "metadata.max.idle.ms",
    "socket.connection.setup.timeout.max.ms", "max.poll.records", "exclude.internal.topics",
    "default.api.timeout.ms", "security.providers", "transaction.two.phase.commit.enable", "ssl.protocol",
    "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.provider", "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm", "ssl.secure.random.implementation", "ssl.engine.factory.class",
    "sasl.client.callback.handler.class", "sasl.login.class", "sasl.login.callback.handler.class",
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",
}  # fmt: skip
