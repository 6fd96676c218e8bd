"""Kafka's client settings, which users write under their Java names, for the client library we use (librdkafka).

`translate` reads one table. What has no counterpart is named in a warning and left out; so is what would break a
guarantee. No text shows a value that may be a secret (E11).
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from fencepost.config import ConfigError, Secret
from fencepost.config.jaas import parse_jaas
from fencepost.config.override import check_overrides

__all__ = ["Kind", "SettingsError", "Translated", "check_overrides", "translate"]

Conf = dict[str, str | bool]


class Kind(Enum):
    """The three kinds of clients."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


class SettingsError(ConfigError):
    """Client settings are wrong; `by_key` has the reason for each key, as it was given."""

    def __init__(self, by_key: Mapping[str, str]) -> None:
        self.by_key = dict(by_key)
        super().__init__([f"Invalid value for configuration {key}: {reason}" for key, reason in by_key.items()])


@dataclass(frozen=True)
class Translated:
    """Settings for librdkafka, and a text for every setting that was left out."""

    conf: Conf
    warnings: list[str]


@dataclass(frozen=True)
class _Rule:
    target: str
    convert: Callable[[str], str]
    kinds: frozenset[Kind]


@dataclass
class _Outcome:
    kind: Kind
    conf: Conf = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    def ignore(self, key: str, why: str) -> None:
        self.warnings.append(f"Ignoring the {self.kind.value} setting '{key}': {why}")


def translate(kind: Kind, properties: Mapping[str, object]) -> Translated:
    """Return librdkafka's settings for a client of `kind`. A property that is None counts as absent.

    Raises:
        SettingsError: values that cannot be translated, all of them at once.
    """
    given: dict[str, str] = {key: _text(value) for key, value in properties.items() if value is not None}
    outcome = _Outcome(kind)
    _translate_jaas(given, outcome)
    _translate_truststore(given, outcome)
    _translate_keystore(given, outcome)
    for key, value in given.items():
        _translate_one(key, value, outcome)
    if outcome.faults:
        raise SettingsError(outcome.faults)
    return Translated(_fitted(outcome.conf), outcome.warnings)


# --- values ---------------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(v) for v in value)
    return str(value).strip()


def _same(value: str) -> str:
    return value


def _lower(value: str) -> str:
    return value.lower()


def _boolean(value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return value.lower()


def _whole(low: int, high: int = (1 << 31) - 1) -> Callable[[str], str]:
    """A whole number; what is beyond the library's limits is moved to the nearest one, as the intent is plain."""

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


def _kibibytes(value: str) -> str:
    return str(max(1, int(_whole(1, 1 << 40)(value)) // 1024))


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
    """Cooperative and eager assignors do not mix here: as in Java, the first in the list wins."""
    names = [part.strip().rpartition(".")[2] for part in value.split(",")]
    known = [_ASSIGNORS.get(name, name) for name in names]
    if unknown := [name for name in known if name not in _ASSIGNORS.values()]:
        raise ValueError(f"there is no {unknown[0]}; there are {', '.join(_ASSIGNORS)}")
    cooperative = known[0] == "cooperative-sticky"
    return ",".join(name for name in known if (name == "cooperative-sticky") is cooperative)


# --- the table ------------------------------------------------------------------------------------------------------

_P, _C, _A = (frozenset({kind}) for kind in Kind)
_ALL = _P | _C | _A
_RULES: dict[str, list[_Rule]] = {}


def _rule(name: str, kinds: frozenset[Kind], convert: Callable[[str], str] = _same, target: str | None = None) -> None:
    _RULES.setdefault(name, []).append(_Rule(target or name, convert, kinds))


_rule("bootstrap.servers", _ALL)
_rule("client.id", _ALL)
_rule("client.dns.lookup", _ALL)
_rule("client.rack", _C)
_rule("enable.metrics.push", _ALL, _boolean)
_rule("metadata.recovery.strategy", _ALL, _lower)
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
# For a producer this is the time that the broker may take to acknowledge; the socket's is tied to the transaction's.
_rule("request.timeout.ms", _P, _whole(1, 900_000))
_rule("request.timeout.ms", _C | _A, _whole(10, 300_000), "socket.timeout.ms")

_rule("security.protocol", _ALL, _lower)
_rule("sasl.mechanism", _ALL)
_rule("sasl.kerberos.service.name", _ALL)
_rule("sasl.oauthbearer.token.endpoint.url", _ALL)
_rule("sasl.oauthbearer.scope", _ALL)

_rule("linger.ms", _P, _milliseconds)
_rule("batch.size", _P, _whole(1))
_rule("buffer.memory", _P, _kibibytes, "queue.buffering.max.kbytes")
_rule("max.request.size", _P, _whole(1_000, 1_000_000_000), "message.max.bytes")
_rule("compression.type", _P, _lower)
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
_rule("group.protocol", _C, _lower)
_rule("group.remote.assignor", _C)
_rule("check.crcs", _C, _boolean)
_rule("allow.auto.create.topics", _C, _boolean)

# Names that only librdkafka has, harmless and of use: the whole list of what passes through.
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
class _Guard:
    """A setting of which only the `harmless` values pass."""

    kinds: frozenset[Kind]
    why: str
    harmless: tuple[str, ...] = ()


_OURS_TO_COMMIT = "positions are committed by the runtime, once records are safe"
_GUARDED = {
    "transactional.id": _Guard(_P, "every task has an id of its own, by which its predecessor is fenced"),
    "enable.idempotence": _Guard(_P, _NOTHING_LOST, ("true",)),
    "acks": _Guard(_P, _NOTHING_LOST, ("all", "-1")),
    "request.required.acks": _Guard(_P, _NOTHING_LOST, ("all", "-1")),
    "retries": _Guard(_P, f"{_NOTHING_LOST}; delivery.timeout.ms bounds the time"),
    "message.send.max.retries": _Guard(_P, f"{_NOTHING_LOST}; delivery.timeout.ms bounds the time"),
    "max.in.flight.requests.per.connection": _Guard(_P, _NOTHING_LOST, ("1", "2", "3", "4", "5")),
    "max.in.flight": _Guard(_P, _NOTHING_LOST, ("1", "2", "3", "4", "5")),
    "message.timeout.ms": _Guard(_P, "records of an open transaction must not expire by themselves"),
    "socket.timeout.ms": _Guard(_ALL, "it is tied to the time-out of transactions"),
    "log_level": _Guard(_ALL, _STRIKES),
    "log.connection.close": _Guard(_ALL, _STRIKES, ("true",)),
    "isolation.level": _Guard(_C, "records of aborted transactions must stay invisible", ("read_committed",)),
    "group.id": _Guard(_C, "the runtime names its groups itself"),
    "enable.auto.commit": _Guard(_C, _OURS_TO_COMMIT, ("false",)),
    "enable.auto.offset.store": _Guard(_C, _OURS_TO_COMMIT, ("false",)),
}

_NO_COUNTERPART = {
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


def _translate_one(key: str, value: str, outcome: _Outcome) -> None:
    if key in _GUARDED:
        guard = _GUARDED[key]
        if value.lower() not in guard.harmless:
            outcome.ignore(key, guard.why)
        elif outcome.kind in guard.kinds:
            outcome.conf[key] = value.lower()
        return
    rules = _RULES.get(key)
    if rules is None:
        outcome.ignore(key, _unknown(key))
        return
    rule = next((rule for rule in rules if outcome.kind in rule.kinds), None)
    if rule is None:
        outcome.ignore(key, f"it is not a setting of a {outcome.kind.value}")
        return
    try:
        outcome.conf[rule.target] = rule.convert(value)
    except ValueError as error:
        outcome.faults[key] = str(error)


def _unknown(key: str) -> str:
    if key in _NO_COUNTERPART:
        return "it has no counterpart in our client library"
    near = difflib.get_close_matches(key, [*_RULES, *_NO_COUNTERPART], n=1, cutoff=0.8)
    return f"there is no such setting; did you mean {near[0]}?" if near else "there is no such setting"


# (a limit, its default in the library, what it must not be below)
_NOT_BELOW = (
    ("reconnect.backoff.max.ms", 10_000, "reconnect.backoff.ms"),
    ("retry.backoff.max.ms", 1_000, "retry.backoff.ms"),
    ("max.poll.interval.ms", 300_000, "session.timeout.ms"),
)
_LARGEST_MESSAGE = 1_000_000


def _fitted(conf: Conf) -> Conf:
    """Raise limits that librdkafka would refuse beside other settings, and that Java's clients take."""
    for limit, default, floor in _NOT_BELOW:
        if floor in conf and int(conf.get(limit, default)) < int(conf[floor]):
            conf[limit] = conf[floor]
    if int(conf.get("fetch.max.bytes", _LARGEST_MESSAGE)) < _LARGEST_MESSAGE:
        conf["message.max.bytes"] = conf["fetch.max.bytes"]
    return conf


# --- settings that go together --------------------------------------------------------------------------------------


def _translate_jaas(given: dict[str, str], outcome: _Outcome) -> None:
    key, mechanism_key = "sasl.jaas.config", "sasl.mechanism"
    text = given.pop(key, None)
    if text is None:
        return
    try:
        credentials = parse_jaas(text)
    except ConfigError as error:
        outcome.faults[key] = str(error)
        return
    mechanism = given.pop(mechanism_key, None)
    if mechanism is None and len(credentials.mechanisms) == 1:
        mechanism = credentials.mechanisms[0]
    if mechanism not in credentials.mechanisms:
        outcome.faults[mechanism_key] = f"with this login module it must be {' or '.join(credentials.mechanisms)}"
        return
    outcome.conf[mechanism_key] = mechanism
    outcome.conf["sasl.username"] = credentials.username
    outcome.conf["sasl.password"] = credentials.password.reveal()


def _translate_truststore(given: dict[str, str], outcome: _Outcome) -> None:
    kind = given.pop("ssl.truststore.type", "JKS").upper()
    location = given.pop("ssl.truststore.location", None)
    given.pop("ssl.truststore.password", None)  # certificates are no secret; PEM has no password
    if certificates := given.pop("ssl.truststore.certificates", None):
        outcome.conf["ssl.ca.pem"] = certificates
    if location and kind == "PEM":
        outcome.conf["ssl.ca.location"] = location
    elif location:
        outcome.faults["ssl.truststore.location"] = (
            f"our client library reads PEM, not {kind}; convert it with `keytool -exportcert -rfc -keystore <file> "
            "-alias <alias> > ca.pem`, name the new file and set ssl.truststore.type=PEM"
        )
    algorithm = given.pop("ssl.endpoint.identification.algorithm", None)
    if algorithm is not None and algorithm.lower() in ("", "none"):
        outcome.conf["ssl.endpoint.identification.algorithm"] = "none"
        outcome.warnings.append(
            "ssl.endpoint.identification.algorithm is empty: anybody with a trusted certificate can pose as a broker"
        )
    elif algorithm is not None:
        outcome.conf["ssl.endpoint.identification.algorithm"] = algorithm.lower()


def _translate_keystore(given: dict[str, str], outcome: _Outcome) -> None:
    kind = given.pop("ssl.keystore.type", "").upper()
    location = given.pop("ssl.keystore.location", None)
    password = given.pop("ssl.keystore.password", None)
    key_password = given.pop("ssl.key.password", None)
    for key, target in (("ssl.keystore.certificate.chain", "ssl.certificate.pem"), ("ssl.keystore.key", "ssl.key.pem")):
        if (pem := given.pop(key, None)) is not None:
            outcome.conf[target] = pem
    if key_password is not None:
        outcome.conf["ssl.key.password"] = key_password
    if not location:
        return
    if kind == "PEM":
        outcome.conf |= {"ssl.certificate.location": location, "ssl.key.location": location}
    elif kind == "PKCS12" or (not kind and location.lower().endswith((".p12", ".pfx"))):
        outcome.conf["ssl.keystore.location"] = location
        if password is not None:
            outcome.conf["ssl.keystore.password"] = password
    else:
        outcome.faults["ssl.keystore.location"] = (
            f"our client library reads PEM and PKCS12, not {kind or 'JKS'}; convert it with `keytool -importkeystore "
            "-srckeystore <file> -destkeystore keystore.p12 -deststoretype PKCS12`, name the new file and set "
            "ssl.keystore.type=PKCS12"
        )


# --- what Fencepost itself asks of its clients ----------------------------------------------------------------------

_PRODUCER_BASE: Conf = {
    # Java's clients put a key there, so must we: consumers rely on a key's partition.
    "partitioner": "murmur2_random",
    "acks": "all",
    # Also when exactly-once is off: retries then neither reorder nor duplicate.
    "enable.idempotence": "true",
    # Waiting pays only with large transactions; the boundary flushes in any case.
    "linger.ms": "1",
    # 64-128 KiB cost a third of the throughput of small transactions.
    "batch.size": "524288",
    "batch.num.messages": "100000",
    # Bounds the memory of a producer, with room for a batch of short records.
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "131072",
    # An acknowledgement without an error is only counted; a callback in Python for each would cost most of the time.
    "delivery.report.only.error": True,
    # At 100, every send_offsets_to_transaction after the first waits for a retry of that length.
    "retry.backoff.ms": "5",
    "retry.backoff.max.ms": "1000",
    # init_transactions connects to a coordinator: 16 ms instead of 54.
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
    # Lines about lost connections are how strikes are noticed.
    "log.connection.close": "true",
}

_READER_BASE: Conf = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "isolation.level": "read_committed",
    # The end of a log is known by its event, at once.
    "enable.partition.eof": "true",
    # At 500, the default, reading to the end of an idle log takes that long.
    "fetch.wait.max.ms": "10",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": "false",
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
}

_MEMBER_BASE: Conf = {"reconnect.backoff.ms": "1", "reconnect.backoff.max.ms": "1000"}
_ADMIN_BASE: Conf = {"reconnect.backoff.ms": "1", "reconnect.backoff.max.ms": "1000", "retry.backoff.ms": "10"}


def producer_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of a producer without transactions; the user's win over ours where both may be set."""
    user = translate(Kind.PRODUCER, properties)
    return Translated(_fitted(_PRODUCER_BASE | user.conf), user.warnings)


def transactional_conf(properties: Mapping[str, object], transactional_id: str) -> Translated:
    """Return the settings of a transactional producer."""
    outcome = producer_conf(properties)
    conf, warnings = dict(outcome.conf), list(outcome.warnings)
    if conf.pop("delivery.timeout.ms", None) is not None:
        warnings.append("Ignoring the producer setting 'delivery.timeout.ms': transaction.timeout.ms bounds the time")
    return Translated(conf | {"transactional.id": transactional_id}, warnings)


def reader_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of a consumer that reads given partitions, committed records only, and joins no group."""
    user = translate(Kind.CONSUMER, properties)
    # The library insists on a group; nothing is ever committed to it.
    return Translated(_fitted(user.conf | _READER_BASE | {"group.id": "fencepost-reader"}), user.warnings)


def member_conf(properties: Mapping[str, object], group_id: str) -> Translated:
    """Return the settings of a consumer that is a member of a group and commits only when told."""
    user = translate(Kind.CONSUMER, properties)
    fixed: Conf = {"group.id": group_id, "enable.auto.commit": "false", "enable.auto.offset.store": "false"}
    return Translated(_fitted(_MEMBER_BASE | user.conf | fixed), user.warnings)


def admin_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of an admin client."""
    user = translate(Kind.ADMIN, properties)
    return Translated(_fitted(_ADMIN_BASE | user.conf), user.warnings)
