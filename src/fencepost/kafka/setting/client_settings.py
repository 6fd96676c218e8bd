"""Translates Kafka's client settings from their Java names, which users write, to librdkafka's.

`translate` reads the one table (`table.py`). A setting that has no counterpart, or that would break a guarantee, is
left out with a warning. No text shows a value that may be a secret (E11).
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.config import ConfigError, Secret
from fencepost.config.jaas import ClientCredentials, Credentials, parse_jaas
from fencepost.config.override import check_overrides
from fencepost.kafka.setting.batch_settings import lacking, lacking_to_read
from fencepost.kafka.setting.table import (
    AUTO,
    BATCH,
    CLIENT,
    CLIENTS,
    GUARDED,
    JAVAS_PARTITIONER,
    LIBRDKAFKA,
    NO_COUNTERPART,
    RULES,
    ClientKind,
)

__all__ = [
    "Conf",
    "ClientKind",
    "SettingsError",
    "Translated",
    "admin_conf",
    "check_overrides",
    "chosen_client",
    "client_faults",
    "lacking_to_read",
    "member_conf",
    "most_record_bytes",
    "own_batch_bytes",
    "producer_conf",
    "range_conf",
    "reader_conf",
    "transaction_timeout_ms",
    "transactional_conf",
    "translate",
]

Conf = dict[str, str | bool]


class SettingsError(ConfigError):
    """Client settings are wrong. `by_key` maps each key, as the user wrote it, to the reason."""

    def __init__(self, by_key: Mapping[str, str]) -> None:
        self.by_key = dict(by_key)
        super().__init__([f"Invalid value for configuration {key}: {reason}" for key, reason in by_key.items()])


@dataclass(frozen=True)
class Translated:
    """Settings for librdkafka, and a warning for each setting that is left out."""

    conf: Conf = field(repr=False)
    warnings: list[str]


@dataclass
class _Outcome:
    kind: ClientKind
    conf: Conf = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    def ignore(self, key: str, why: str) -> None:
        self.warnings.append(f"Ignoring the {self.kind.value} setting '{key}': {why}")


def translate(kind: ClientKind, properties: Mapping[str, object]) -> Translated:
    """Return librdkafka's settings for a client of `kind`. A property that is None counts as absent.

    Raises:
        SettingsError: some values cannot be translated. It lists all of them.
    """
    given: dict[str, str] = {key: _text(value) for key, value in properties.items() if value is not None}
    outcome = _Outcome(kind)
    _translate_jaas(given, outcome)
    _translate_truststore(given, outcome)
    _translate_keystore(given, outcome)
    for key, value in given.items():
        _translate_one(key, value, outcome)
    _complete_oauth(outcome)
    if outcome.faults:
        raise SettingsError(outcome.faults)
    return Translated(_fitted(outcome.conf), outcome.warnings)


def _text(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(v) for v in value)
    return str(value).strip()


def _translate_one(key: str, value: str, outcome: _Outcome) -> None:
    if key in GUARDED:
        guard = GUARDED[key]
        if value.lower() not in guard.harmless:
            outcome.ignore(key, guard.why)
        elif outcome.kind in guard.kinds:
            outcome.conf[key] = value.lower()
        return
    rules = RULES.get(key)
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
    if key in NO_COUNTERPART:
        return "it has no counterpart in our client library"
    near = difflib.get_close_matches(key, [*RULES, *NO_COUNTERPART], n=1, cutoff=0.8)
    return f"there is no such setting; did you mean {near[0]}?" if near else "there is no such setting"


# (a limit, its default in the library, what it must not be below)
_NOT_BELOW = (
    ("reconnect.backoff.max.ms", 10_000, "reconnect.backoff.ms"),
    ("retry.backoff.max.ms", 1_000, "retry.backoff.ms"),
    ("max.poll.interval.ms", 300_000, "session.timeout.ms"),
)
_LARGEST_MESSAGE = 1_000_000


def _fitted(conf: Conf) -> Conf:
    """Raise limits that Java's clients accept but librdkafka refuses in combination with other settings."""
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
    if isinstance(credentials, Credentials):
        outcome.conf["sasl.username"] = credentials.username
        outcome.conf["sasl.password"] = credentials.password.reveal()
    else:
        given |= _of_tokens(credentials, given)


def _of_tokens(credentials: ClientCredentials, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings inside the login module. A setting that is given by itself wins, as in Kafka's clients."""
    found = {
        "sasl.oauthbearer.client.credentials.client.id": credentials.client_id,
        "sasl.oauthbearer.client.credentials.client.secret": credentials.client_secret.reveal(),
    }
    if credentials.scope:
        found["sasl.oauthbearer.scope"] = credentials.scope
    for key, text in credentials.extensions.items():
        if "," in key + text:
            raise ConfigError(
                f"sasl.jaas.config: the value of extension_{key} has a comma, at which our client library starts the "
                "next extension: use a value without a comma"
            )
    if credentials.extensions:
        found["sasl.oauthbearer.extensions"] = ",".join(f"{key}={text}" for key, text in credentials.extensions.items())
    return {key: text for key, text in found.items() if key not in given}


_TOKENS = ("token.endpoint.url", "client.credentials.client.id", "client.credentials.client.secret")


def _complete_oauth(outcome: _Outcome) -> None:
    """Make a client fetch tokens itself. Refuse the settings if the endpoint or the credentials are missing."""
    conf = outcome.conf
    if str(conf.get("sasl.mechanism", "")).upper() != "OAUTHBEARER" or "sasl.jaas.config" in outcome.faults:
        return
    for setting in _TOKENS:
        if not conf.get(RULES[f"sasl.oauthbearer.{setting}"][0].target):
            outcome.faults[f"sasl.oauthbearer.{setting}"] = (
                "OAUTHBEARER needs it: set the token endpoint's URL and the client's id and secret (or clientId and "
                "clientSecret in sasl.jaas.config)"
            )
    conf["sasl.oauthbearer.method"] = "oidc"


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


# --- Fencepost's own defaults ---------------------------------------------------------------------------------------

_PRODUCER_BASE: Conf = {
    **JAVAS_PARTITIONER,
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
    # Successful deliveries are only counted; a Python callback for each of them would take most of the time.
    "delivery.report.only.error": True,
    # At 100, every send_offsets_to_transaction after the first waits 100 ms for a retry.
    "retry.backoff.ms": "5",
    "retry.backoff.max.ms": "1000",
    # init_transactions connects to a coordinator: 16 ms instead of 54.
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
    # Strikes are detected from log lines about lost connections.
    "log.connection.close": "true",
}

_READER_BASE: Conf = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "isolation.level": "read_committed",
    # The client reports the end of a log at once, as an event.
    "enable.partition.eof": "true",
    # At 500, the default, reading to the end of an idle log takes 500 ms.
    "fetch.wait.max.ms": "10",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": "false",
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
}

_MEMBER_BASE: Conf = {
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
    # A broker also sends a batch that is larger than `fetch.max.bytes`. At 100 MB, the default, the client would
    # request such a batch and refuse it for ever.
    "receive.message.max.bytes": "2147483647",
}
_MANY_RECORDS: Conf = {
    # At 1000, a partition whose queue was full pauses for most of a second after the queue is drained.
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "20000",  # at 100,000 it is slower, too
}
_RANGE_BASE: Conf = {
    **_MEMBER_BASE,
    **_MANY_RECORDS,
    # At 500, the default, it takes 500 ms to see that a log ends after the markers of a transaction.
    "fetch.wait.max.ms": "10",
}
_READER = "fencepost-reader"  # the library insists on a group
# A reader without a session waits this long for its group's coordinator, and starts no partition meanwhile, whether
# a permission is missing or a broker is down. (The default is 45,000.)
_COMMIT_MS = "4000"
_OF_A_MEMBER = frozenset(  # useless to a reader that joins no group; some of it conflicts with the above
    {"group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms",
     "partition.assignment.strategy"}
)  # fmt: skip
_ISOLATION = ("read_committed", "read_uncommitted")
OF_A_STREAM: Conf = {"isolation.level": _ISOLATION[0]}
"""Settings of a stream's member that the user cannot change: it reads only committed records and stable offsets."""
PROTOCOL, NEWER_PROTOCOL = "group.protocol", "consumer"
_CLASSIC: Conf = {PROTOCOL: "classic"}  # its generation changes with its assignment: one captured with it is current
_MOST_RECORDS = 500  # Java's; with 5,000 at once Python's garbage collector doubles the cost of a record
_OF_A_SINK = frozenset({"group.id", "isolation.level", "max.poll.records"})
_SINK_BASE: Conf = {
    **_MEMBER_BASE,
    **_MANY_RECORDS,
    "auto.offset.reset": "earliest",
    # A queued record takes half a kilobyte besides its bytes, and all records of a response are queued. With small
    # records in many partitions, the default of 50 MB would become hundreds. Up to eight partitions get 1 MB each.
    "fetch.max.bytes": "8388608",
    # The default of Kafka Connect's sinks, so that members of both can be in one group.
    "partition.assignment.strategy": "range,roundrobin",
    "allow.auto.create.topics": "false",
}
_CLIENT = "client"
_TRANSACTION_TIMEOUT_MS = 60_000  # librdkafka's default
_RECORD_BYTES = 1_000_000  # likewise
_TRANSACTION_LINGER_MS = 1_000
_ADMIN_BASE: Conf = {"reconnect.backoff.ms": "1", "reconnect.backoff.max.ms": "1000", "retry.backoff.ms": "10"}


def producer_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of a producer without transactions; the user's settings override Fencepost's defaults.

    The client is always librdkafka.
    """
    user = translate(ClientKind.PRODUCER, _of_any_client(properties))
    return Translated(_fitted(_PRODUCER_BASE | user.conf), user.warnings)


def chosen_client(properties: Mapping[str, object]) -> str:
    """Return the client that these properties select for a transactional producer. Raises SettingsError."""
    client = _text(properties.get(_CLIENT) or AUTO).lower()
    if client not in CLIENTS:
        raise SettingsError({_CLIENT: f"it must be one of {', '.join(CLIENTS)}"})
    return client


def _of_any_client(properties: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in properties.items() if key != _CLIENT}


def client_faults(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the properties that the selected client of a transactional producer does not support, each with a reason.

    Raises SettingsError for values that cannot be translated.
    """
    if chosen_client(properties) != BATCH:
        return {}
    conf = translate(ClientKind.PRODUCER, _of_any_client(properties)).conf
    return {_given_as(name, properties): why for name, why in lacking(conf).items()}


def _given_as(name: str, properties: Mapping[str, object]) -> str:
    """Return the property that a librdkafka setting was translated from."""
    return next((key for key in properties if any(rule.target == name for rule in RULES.get(key, ()))), name)


def transactional_conf(properties: Mapping[str, object], transactional_id: str) -> Translated:
    """Return the settings of a transactional producer.

    `linger.ms` is raised. Nothing is visible before the commit, and the commit flushes; while the oldest record is
    older than `linger.ms`, librdkafka's sending thread polls without a pause (see `ProducerClient.flush`).

    Raises SettingsError if the selected client does not support a setting.
    """
    if faults := client_faults(properties):
        raise SettingsError({key: f"{why}: remove it, or use the client {LIBRDKAFKA}" for key, why in faults.items()})
    outcome = producer_conf(properties)
    conf, warnings = dict(outcome.conf), list(outcome.warnings)
    if chosen_client(properties) == BATCH:
        conf[CLIENT] = BATCH
    longest_ms = min(_TRANSACTION_LINGER_MS, transaction_timeout_ms(conf) // 4)
    conf["linger.ms"] = str(max(longest_ms, int(float(conf["linger.ms"]))))
    if conf.pop("delivery.timeout.ms", None) is not None:
        warnings.append("Ignoring the producer setting 'delivery.timeout.ms': transaction.timeout.ms bounds the time")
    return Translated(conf | {"transactional.id": transactional_id}, warnings)


def own_batch_bytes(properties: Mapping[str, object]) -> int | None:
    """Return `batch.size` from a producer's properties (Java names); None if the user has not set it."""
    given = translate(ClientKind.PRODUCER, properties).conf.get("batch.size")
    return None if given is None else int(given)


def most_record_bytes(conf: Mapping[str, object]) -> int:
    """Return the largest size in bytes of a record under these librdkafka settings."""
    return int(str(conf.get("message.max.bytes", _RECORD_BYTES)))


def transaction_timeout_ms(conf: Mapping[str, object]) -> int:
    """Return the transaction time-out in milliseconds under these librdkafka settings."""
    return int(str(conf.get("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)))


def reader_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of a consumer that reads committed records of given partitions and joins no group."""
    user = translate(ClientKind.CONSUMER, properties)
    # Nothing is ever committed to that group.
    return Translated(_fitted(user.conf | _READER_BASE | {"group.id": _READER}), user.warnings)


def range_conf(properties: Mapping[str, object], group_id: str) -> Translated:
    """Return the settings of a consumer that reads ranges of partitions. It names a group but never joins it.

    It reads only committed records unless the user sets `isolation.level`.
    """
    return _assigned_conf(_RANGE_BASE, properties, group_id)


def plan_conf(properties: Mapping[str, object], group_id: str = _READER) -> Translated:
    """Return the settings of a consumer that reads given partitions without end and joins no group.

    It reads only committed records unless the user sets `isolation.level`; `begins_at` returns where it starts. Offsets
    that it commits belong to `group_id`. Settings of group members are left out because they have no effect.
    """
    base = {key: value for key, value in _SINK_BASE.items() if key not in _OF_A_MEMBER}
    given = {key: value for key, value in properties.items() if key not in _OF_A_MEMBER}
    found = _assigned_conf(base, given, group_id)
    return Translated({**found.conf, "session.timeout.ms": _COMMIT_MS}, found.warnings)


def begins_at(properties: Mapping[str, object]) -> str:
    """Return where a partition without a position starts: `earliest` unless the user sets `latest` or `none`."""
    return _text(properties.get("auto.offset.reset") or "earliest").lower()


def _assigned_conf(base: Conf, properties: Mapping[str, object], group_id: str) -> Translated:
    given = {key: value for key, value in properties.items() if key not in ("group.id", "isolation.level")}
    user = translate(ClientKind.CONSUMER, given)
    own = {key: _READER_BASE[key] for key in _READER_BASE if key not in _RANGE_BASE}
    fixed = own | {"group.id": group_id, "isolation.level": isolation_level(properties)}
    return Translated(_fitted(base | user.conf | fixed), user.warnings)


def member_conf(properties: Mapping[str, object], group_id: str) -> Translated:
    """Return the settings of a consumer that is a member of a group and commits only on request."""
    user = translate(ClientKind.CONSUMER, properties)
    fixed: Conf = {"group.id": group_id, "enable.auto.commit": "false", "enable.auto.offset.store": "false"}
    return Translated(_fitted(_MEMBER_BASE | user.conf | fixed), user.warnings)


def sink_conf(properties: Mapping[str, object], group_id: str, client_id: str) -> Translated:
    """Return the settings of a sink task's consumer, a member of `group_id`.

    By default it starts at the earliest record and reads only committed records. The user can change both.
    """
    given = {key: value for key, value in properties.items() if key not in _OF_A_SINK}
    user = translate(ClientKind.CONSUMER, given)
    fixed: Conf = {"group.id": group_id, "isolation.level": isolation_level(properties), **_CLASSIC}
    warnings = list(user.warnings)
    if user.conf.get(PROTOCOL) == NEWER_PROTOCOL:
        warnings.append(f"Ignoring the consumer setting '{PROTOCOL}': sinks are members of classic groups")
    return Translated(_fitted(_SINK_BASE | {"client.id": client_id} | user.conf | fixed), warnings)


def isolation_level(properties: Mapping[str, object]) -> str:
    """Return the isolation level of a sink. Raises SettingsError unless it is one of Kafka's two."""
    level = _text(properties.get("isolation.level") or _ISOLATION[0]).lower()
    if level not in _ISOLATION:
        raise SettingsError({"isolation.level": f"it must be {' or '.join(_ISOLATION)}"})
    return level


def most_records(properties: Mapping[str, object]) -> int:
    """Return the most records that one `put` of a sink receives. Raises SettingsError."""
    given = properties.get("max.poll.records")
    if given is None:
        return _MOST_RECORDS
    try:
        most = int(_text(given))
    except ValueError:
        most = 0
    if most < 1:
        raise SettingsError({"max.poll.records": "it must be a whole number, 1 or more"})
    return most


def check_sink_settings(properties: Mapping[str, object]) -> None:
    """Check the consumer settings that only sinks use. Raises SettingsError."""
    isolation_level(properties)
    most_records(properties)


def admin_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of an admin client."""
    user = translate(ClientKind.ADMIN, properties)
    return Translated(_fitted(_ADMIN_BASE | user.conf), user.warnings)
