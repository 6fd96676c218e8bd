"""Validation of a connector's overrides of client settings."""

from collections.abc import Mapping

from fencepost.api import Connector, SinkConnector
from fencepost.cluster.info import KeyReport, KeyValue
from fencepost.config.client import SecurityConfig
from fencepost.config.connector import RuntimeChoice
from fencepost.config.credentials import PROTOCOL, combined, is_weaker, lacks_credentials
from fencepost.config.override import check_overrides
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.setting.client_settings import check_sink_settings, client_faults, transaction_timeout_ms
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import SettingsError, translate
from fencepost.secret.redaction import HIDDEN
from fencepost.worker.client_recipes import BOOTSTRAP, producer_properties, shared_properties
from fencepost.worker.validation.findings import below

_OVERRIDE = "override."
_JAAS = SecurityConfig.key_of("sasl_jaas_config")


def override_reports(given: Mapping[str, str], worker: WorkerConfig) -> list[KeyReport]:
    return [report for kind in ClientKind for report in _overrides_of(kind, given, worker)]


def own_client_faults(connector: type[Connector], given: Mapping[str, str], worker: WorkerConfig) -> dict[str, str]:
    """Return, by key, why settings of the connector's own Kafka clients are refused under any policy of the worker."""
    faults: dict[str, str] = {}
    for prefix in connector.client_prefixes:
        own = {key: value for key, value in below(prefix, given).items() if not key.startswith(_OVERRIDE)}
        refused = check_overrides("All", own, allowed_paths=worker.override_allowed_paths)
        faults |= {prefix + key: f"{prefix}{key}: {reason}" for key, reason in refused.items()}
    return faults


def credential_faults(connector: type[Connector], given: Mapping[str, str], worker: WorkerConfig) -> dict[str, str]:
    """Return, by key, why clients would need the worker's credentials in another cluster, or would send them in clear.

    Admin clients go where the connector reads and where it writes, and readers of a source's offsets where it writes.
    """
    own = {kind: below(f"{kind.value}.{_OVERRIDE}", given) for kind in ClientKind}
    is_sink = issubclass(connector, SinkConnector)
    followed = {
        ClientKind.ADMIN: (ClientKind.PRODUCER, *([ClientKind.CONSUMER] if is_sink else [])),
        ClientKind.CONSUMER: () if is_sink else (ClientKind.PRODUCER,),
    }
    faults: dict[str, str] = {}
    for kind, settings in own.items():
        prefix, shared = f"{kind.value}.{_OVERRIDE}", shared_properties(worker, f"{kind.value}.")
        if is_weaker(shared, settings) and _JAAS not in settings:
            faults[prefix + PROTOCOL] = (
                f"{prefix}{PROTOCOL}: the worker's credentials, which this client would use, are sent through TLS "
                f"only. Remove it, or give the client credentials of its own ({prefix}{_JAAS})"
            )
        for named in (kind, *followed.get(kind, ())):
            servers = own[named].get(BOOTSTRAP)
            if servers is not None and lacks_credentials(shared, {**settings, BOOTSTRAP: servers}):
                key = f"{named.value}.{_OVERRIDE}{BOOTSTRAP}"
                text = f"{key}: the worker's credentials do not go to other brokers than the worker's. Set {prefix}"
                faults.setdefault(key, f"{text}{PROTOCOL}, and with it what these ask for; PLAINTEXT if it is nothing")
    return faults


def client_choice_fault(given: Mapping[str, str], worker: WorkerConfig) -> str | None:
    """Return why the chosen client cannot be created with these settings; no value is shown (E11)."""
    key = RuntimeChoice.key_of("producer_client")
    try:
        faults = client_faults(producer_properties(worker, given))
    except SettingsError:
        return None  # shown with the key that has them
    if not faults:
        return None
    lacking = "; ".join(f"{name}: {reason}" for name, reason in faults.items())
    return f"Invalid value batch for configuration {key}: {lacking}. Remove these settings, or set {key}=librdkafka"


def transaction_limit_ms(given: Mapping[str, str], worker: WorkerConfig) -> int | None:
    """Return how long a transaction of the connector's producers may take; None if their settings are wrong."""
    shared = shared_properties(worker, "producer.")
    try:
        conf = translate(
            ClientKind.PRODUCER, {**shared, **below(f"{ClientKind.PRODUCER.value}.{_OVERRIDE}", given)}
        ).conf
    except SettingsError:
        return None
    return transaction_timeout_ms(conf)


def _overrides_of(kind: ClientKind, given: Mapping[str, str], worker: WorkerConfig) -> list[KeyReport]:
    """Return reports of overrides without values, as any of them may be a secret (E11)."""
    prefix = f"{kind.value}.{_OVERRIDE}"
    overrides = below(prefix, given)
    refused = check_overrides(
        worker.override_policy,
        overrides,
        allowlist=worker.override_allowlist,
        allowed_paths=worker.override_allowed_paths,
    )
    refused = _untranslatable(kind, overrides, worker) | refused
    return [
        KeyReport(None, KeyValue(prefix + key, HIDDEN, errors=(refused[key],) if key in refused else ()))
        for key in overrides
    ]


def _untranslatable(kind: ClientKind, overrides: Mapping[str, str], worker: WorkerConfig) -> dict[str, str]:
    """Check overrides together with the worker's settings, as the client uses them; only faults of overrides count."""
    try:
        shared = shared_properties(worker, f"{kind.value}.")
        properties = combined(shared, overrides)
        translate(kind, properties)
        if kind is ClientKind.CONSUMER:
            check_sink_settings(properties)
    except SettingsError as error:
        prefix = f"{kind.value}.{_OVERRIDE}"
        return {
            key: f"Invalid value for configuration {prefix}{key}: {reason}"
            for key, reason in error.by_key.items()
            if key in overrides
        }
    return {}
