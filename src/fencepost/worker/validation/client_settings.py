"""Validation of a connector's overrides of client settings."""

from collections.abc import Mapping

from fencepost.api import SinkConnector
from fencepost.cluster.info import KeyReport, KeyValue
from fencepost.config.client import PROTOCOL, SecurityConfig, combined, is_weaker, lacks_credentials
from fencepost.config.connector import RuntimeChoice
from fencepost.config.connector_limit import check_overrides
from fencepost.kafka.setting.client_settings import check_sink_settings, client_faults
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import SettingsError, translate
from fencepost.secret.redaction import HIDDEN
from fencepost.worker.plan import BOOTSTRAP, LEDGER_TOPIC, ConnectorPlan, why_no_ledger
from fencepost.worker.validation.chain import Examination, Faults, below, invalid

_OVERRIDE = "override."
_JAAS = SecurityConfig.key_of("sasl_jaas_config")
_CLIENT = RuntimeChoice.key_of("producer_client")


def own_client_faults(case: Examination) -> Faults:
    """Refuse settings of the connector's own Kafka clients that no policy of the worker allows."""
    for prefix in case.connector.client_prefixes:
        own = {key: value for key, value in below(prefix, case.given).items() if not key.startswith(_OVERRIDE)}
        refused = check_overrides("All", own, allowed_paths=case.worker.override_allowed_paths)
        yield from ((prefix + key, f"{prefix}{key}: {reason}") for key, reason in refused.items())


def credential_faults(case: Examination) -> Faults:
    """Refuse clients that would need the worker's credentials in another cluster, or would send them in clear.

    Admin clients go where the connector reads and where it writes, and readers of a source's offsets where it writes.
    """
    clients = case.plan.clients
    own = {kind: clients.own(f"{kind.value}.") for kind in ClientKind}
    is_sink = issubclass(case.connector, SinkConnector)
    followed = {
        ClientKind.ADMIN: (ClientKind.PRODUCER, *([ClientKind.CONSUMER] if is_sink else [])),
        ClientKind.CONSUMER: () if is_sink else (ClientKind.PRODUCER,),
    }
    faults: dict[str, str] = {}
    for kind, settings in own.items():
        prefix, shared = f"{kind.value}.{_OVERRIDE}", clients.shared(f"{kind.value}.")
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
    return faults.items()


def client_choice_faults(case: Examination) -> Faults:
    """Refuse a client that cannot be created with these settings; no value is shown (E11)."""
    try:
        faults = client_faults(case.plan.clients.producer_properties)
    except SettingsError:
        return  # shown with the key that has them
    if faults:
        lacking = "; ".join(f"{name}: {reason}" for name, reason in faults.items())
        yield (
            _CLIENT,
            f"Invalid value batch for configuration {_CLIENT}: {lacking}. Remove these settings, or set "
            f"{_CLIENT}=librdkafka",
        )


def ledger_faults(case: Examination) -> Faults:
    topic = case.text(LEDGER_TOPIC)
    reason = why_no_ledger(case.plan, case.connector) if topic else None
    if reason is not None:
        yield LEDGER_TOPIC, invalid(LEDGER_TOPIC, topic, reason)


def override_reports(plan: ConnectorPlan) -> list[KeyReport]:
    """Return reports of overrides without values, as any of them may be a secret (E11)."""
    reports = []
    for kind in ClientKind:
        overrides = plan.clients.own(f"{kind.value}.")
        refused = check_overrides(
            plan.worker.override_policy,
            overrides,
            allowlist=plan.worker.override_allowlist,
            allowed_paths=plan.worker.override_allowed_paths,
        )
        refused = _untranslatable(kind, overrides, plan) | refused
        for key in overrides:
            errors = (refused[key],) if key in refused else ()
            reports.append(KeyReport(None, KeyValue(f"{kind.value}.{_OVERRIDE}{key}", HIDDEN, errors=errors)))
    return reports


def _untranslatable(kind: ClientKind, overrides: Mapping[str, str], plan: ConnectorPlan) -> dict[str, str]:
    """Check overrides together with the worker's settings, as the client uses them; only faults of overrides count."""
    try:
        properties = combined(plan.clients.shared(f"{kind.value}."), overrides)
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
