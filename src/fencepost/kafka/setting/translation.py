"""Translates Kafka's client settings from their Java names, which users write, to librdkafka's.

`translate` reads the one table (`table.py`). A setting that has no counterpart, or that would break a guarantee, is
left out with a warning. No text shows a value that may be a secret (E11).
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.config import ConfigError, Secret
from fencepost.config.jaas import ClientCredentials, Credentials, parse_jaas
from fencepost.kafka.setting.table import GSSAPI, GUARDED, NO_COUNTERPART, RULES, ClientKind, why_no_kerberos

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
    given: dict[str, str] = {key: text_of(value) for key, value in properties.items() if value is not None}
    outcome = _Outcome(kind)
    _translate_jaas(given, outcome)
    _translate_truststore(given, outcome)
    _translate_keystore(given, outcome)
    for key, value in given.items():
        _translate_one(key, value, outcome)
    _complete_oauth(outcome)
    _check_kerberos(outcome)
    if outcome.faults:
        raise SettingsError(outcome.faults)
    return Translated(fitted(outcome.conf), outcome.warnings)


def text_of(value: object) -> str:
    """Return a property as text, as in a file of properties. A secret is revealed."""
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
LARGEST_MESSAGE = 1_000_000


def fitted(conf: Conf) -> Conf:
    """Raise limits that Java's clients accept but librdkafka refuses in combination with other settings."""
    for limit, default, floor in _NOT_BELOW:
        if floor in conf and int(conf.get(limit, default)) < int(conf[floor]):
            conf[limit] = conf[floor]
    if int(conf.get("fetch.max.bytes", LARGEST_MESSAGE)) < LARGEST_MESSAGE:
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


def _check_kerberos(outcome: _Outcome) -> None:
    """Refuse Kerberos where a client would be refused by its library."""
    is_sasl = str(outcome.conf.get("security.protocol", "")).upper().startswith("SASL")
    mechanism = str(outcome.conf.get("sasl.mechanism", GSSAPI)).upper()
    has_faults = not outcome.faults.keys().isdisjoint(("sasl.jaas.config", "sasl.mechanism"))
    if is_sasl and mechanism == GSSAPI and not has_faults and (reason := why_no_kerberos()) is not None:
        outcome.faults["sasl.mechanism"] = reason


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
