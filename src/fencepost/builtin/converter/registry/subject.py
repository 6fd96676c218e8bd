"""Names of subjects: under what a schema is registered."""

from collections.abc import Callable

from fencepost.api import ConfigError, RecordError

Strategy = Callable[[str, bool, str | None], str]
"""Returns the subject of a topic's keys (True) or values (False), for a schema with that name."""

_PACKAGE = "io.confluent.kafka.serializers.subject."


def _by_topic(topic: str, is_key: bool, record: str | None) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def _by_record(topic: str, is_key: bool, record: str | None) -> str:
    if record is None:
        raise RecordError(
            f"The schema of the {'key' if is_key else 'value'} has no name, which RecordNameStrategy and "
            "TopicRecordNameStrategy use as the subject: give the schema a name, for example with SetSchemaMetadata, "
            "or use TopicNameStrategy"
        )
    return record


def _by_topic_and_record(topic: str, is_key: bool, record: str | None) -> str:
    return f"{topic}-{_by_record(topic, is_key, record)}"


_STRATEGIES: dict[str, Strategy] = {
    "TopicNameStrategy": _by_topic,
    "RecordNameStrategy": _by_record,
    "TopicRecordNameStrategy": _by_topic_and_record,
}


def strategy(key: str, name: str) -> Strategy:
    """Return the strategy of a class name, with or without its package. Raises ConfigError, which names `key`."""
    found = _STRATEGIES.get(name.removeprefix(_PACKAGE))
    if found is None:
        known = ", ".join(_PACKAGE + each for each in _STRATEGIES)
        raise ConfigError(
            f"Invalid value {name} for configuration {key}: Class {name} could not be found. Known: {known}"
        )
    return found
