"""The configs of topics.

One request is about many topics. Each topic has its own outcome: a refusal of one does not affect the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import ConfigSource

from fencepost.kafka.admin.admin_requests import AdminRequests, Refusals
from fencepost.kafka.wire.cluster import TOPIC_RESOURCE

_SET, _DELETE = 0, 1


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A setting of a topic.

    `is_default`: it is set neither on the topic nor on brokers. `is_of_broker`: it is set in a broker's file.
    """

    value: str | None
    is_default: bool
    is_of_broker: bool
    is_fixed: bool
    """Whether the setting cannot be changed, or not be seen."""


class TopicConfigs:
    """Reads and changes the configs of a cluster's topics."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    def get(self, topic: str) -> dict[str, str | None]:
        """Return the effective configs of `topic`, including the broker's defaults."""
        return self.get_all([topic])[topic]

    def get_all(self, topics: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Return the effective configs of each of `topics`, all of which must exist."""

        def ask() -> dict[str, dict[str, str | None]]:
            found = {}
            for each in self._described(topics):
                self._requests.ensure(each, f"describing the configs of topic {each.resource_name}")
                found[each.resource_name] = {entry.name: entry.value for entry in each.configs}
            return found

        return self._requests.ask_repeatedly("describing the configs of topics", ask) if topics else {}

    def settings(self, topics: Collection[str]) -> tuple[dict[str, dict[str, TopicSetting]], Refusals]:
        """Return all settings of topics, and the topics whose settings cannot be read."""
        if not topics:
            return {}, {}
        described, refused = self._requests.read_each(
            "describing the configs of topic", lambda: self._described(topics)
        )
        found = {name: {entry.name: _setting(entry) for entry in each.configs} for name, each in described.items()}
        return found, refused

    def _described(self, topics: Iterable[str]) -> Any:
        from fencepost.kafka.kafka_library import DescribeConfigsRequest as Request

        asked = [Request.DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=each) for each in topics]
        return self._requests.client.ask(Request(resources=asked)).results

    def alter(self, changes: Mapping[str, Mapping[str, str | None]]) -> Refusals:
        """Change settings of topics. None resets a setting to its default. Other settings stay unchanged."""
        from fencepost.kafka.kafka_library import IncrementalAlterConfigsRequest as Request

        of_topic = Request.AlterConfigsResource

        def change(key: str, value: str | None) -> Any:
            return of_topic.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)

        asked = [
            of_topic(
                resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change(*each) for each in settings.items()]
            )
            for topic, settings in changes.items()
            if settings
        ]
        if not asked:
            return {}
        request, doing = Request(resources=asked, validate_only=False), "changing the configs of topic"
        return self._requests.refusals_of(doing, lambda: self._requests.change(request).responses)


def _setting(entry: Any) -> TopicSetting:
    source = ConfigSource(entry.config_source)
    return TopicSetting(
        entry.value,
        is_default=source is ConfigSource.DEFAULT_CONFIG,
        is_of_broker=source is ConfigSource.STATIC_BROKER_CONFIG,
        is_fixed=bool(entry.read_only or entry.is_sensitive),
    )
