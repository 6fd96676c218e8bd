"""Settings of connectors that cannot be references: workers read or compare them without looking anything up."""

from collections.abc import Mapping

from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig, RuntimeChoice, SourceConnectorConfig
from fencepost.config.reference import references

_REASONS: Mapping[str, str] = {
    ConnectorConfig.key_of("name"): "the name is part of the keys in Kafka",
    ConnectorConfig.key_of("connector_class"): "every worker must know the class",
    ConnectorConfig.key_of("connector_version"): "every worker must know the class",
    ConnectorConfig.key_of("config_action_reload"): "it says what happens when looked-up values expire",
    SourceConnectorConfig.key_of("offsets_storage_topic"): "another topic would have no offsets, and records would be "
    "written twice",
    "producer.override.bootstrap.servers": "earlier tasks are fenced where they wrote",
    "consumer.override.group.id": "another group would have no offsets, and records would be read twice",
    "consumer.override.bootstrap.servers": "the group's offsets are where earlier tasks committed them",
    **dict.fromkeys(RuntimeChoice.settings(), "workers read it before anything is looked up"),
}


def fixed_reference_faults(config: Mapping[str, object]) -> dict[str, str]:
    """Return a text for each key whose value is a reference and cannot be one."""
    return {
        key: f"{key}: {one.shown_in(str(config[key]))} is not possible here, because {why}: write the value itself"
        for key, why in _REASONS.items()
        for one in list(references(key, config.get(key)))[:1]
    }


def refuse_fixed_references(config: Mapping[str, object]) -> None:
    """Raise ConfigError if a config has such references. Another worker's REST may have accepted them."""
    if faults := fixed_reference_faults(config):
        raise ConfigError(list(faults.values()))
