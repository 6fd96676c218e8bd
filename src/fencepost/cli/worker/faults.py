"""All that is wrong with a worker's file, at once, where one part has refused it."""

from collections.abc import Mapping

from fencepost.cluster.tls import peer_context, server_context
from fencepost.config.errors import ConfigError, collected
from fencepost.config.rest_tls import ADMIN_HTTPS, LISTENERS_HTTPS, tls_config
from fencepost.config.setting import Type
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.setting.client_settings import admin_conf, member_conf, producer_conf, reader_conf
from fencepost.rest.access.set_up import access_of
from fencepost.worker.process import require_names

_ANY_CLASS = "org.apache.kafka.connect.converters.ByteArrayConverter"


def with_all_faults(error: ConfigError, properties: Mapping[str, str]) -> ConfigError:
    """Return the error for a file whose settings are wrong, with what else is wrong in it."""
    partial = WorkerConfig.unchecked(_right_part(properties))
    return ConfigError([*dict.fromkeys((*error.messages, *partial.check_together(), *faults_of(partial)))])


def faults_of(config: WorkerConfig) -> list[str]:
    """Return what the parts of a worker refuse: protection of REST, certificates, clients of Kafka, named classes."""
    faults: list[str] = []
    clients = config.internal_client_properties
    for check in (
        lambda: access_of(config),
        lambda: _try_certificates(config),
        lambda: reader_conf(clients),
        lambda: admin_conf(clients),
        lambda: producer_conf(clients),
        lambda: member_conf(clients, config.group_id),
        lambda: require_names(config),
    ):
        collected(check, None, faults)
    return [*dict.fromkeys(faults)]


def _right_part(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that are right; in place of those that are wrong or missing, the defaults count.

    Where there is none, it is the key, or the converter that leaves bytes as they are.
    """
    wrong = {answer.setting.key: answer.setting for answer in WorkerConfig.validate_values(properties) if answer.errors}
    needed = {key: _ANY_CLASS if one.kind is Type.CLASS else key for key, one in wrong.items() if one.is_required}
    return {**{key: value for key, value in properties.items() if key not in wrong}, **needed}


def _try_certificates(config: WorkerConfig) -> None:
    for listeners, prefix in (
        (config.rest_listeners, LISTENERS_HTTPS), (config.admin_rest_listeners or (), ADMIN_HTTPS),
    ):  # fmt: skip
        if any(one.is_tls for one in listeners):
            server_context(tls_config(config.originals, prefix), prefix)
    peer_context(config)
