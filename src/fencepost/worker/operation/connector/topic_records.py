"""Records of topics, for people: any worker reads them, as a connector does or with its own settings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.topic_records import RecordPage, RecordQuery, TopicEntry
from fencepost.config.closed_topics import CLOSED
from fencepost.config.raw import RawConfig
from fencepost.dead_letter.page import text_of
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.worker.client_recipes import ClientRecipes
from fencepost.worker.operation.connector.browsing import ASK_S, Room, browsing
from fencepost.worker.operation.connector.lineage import lineage_of
from fencepost.worker.operation.connector.record_page import read_page
from fencepost.worker.operation.connector.shown_record import RecordView
from fencepost.worker.operation.request import Requests
from fencepost.worker.settings import WorkerSettings, known, logged, with_converters

_READER = "fencepost-look"  # a group without commits
_COMMITTED = {"isolation.level": "read_committed"}


class TopicRecords:
    """The `TopicOperations` of a worker. `used` returns the topics that a connector has used."""

    def __init__(self, requests: Requests, settings: WorkerSettings, used: Callable[[str], Sequence[str]]) -> None:
        self._requests = requests
        self._settings = settings
        self._used = used
        self._room = Room("records")

    def topics(self) -> Sequence[TopicEntry]:
        with (
            browsing(self._requests, "listing topics"),
            closing(Admin(self._settings.admin_conf(), timeout_s=ASK_S)) as admin,
        ):
            found = admin.topics.get_all([name for name in admin.topics.names() if not self._is_closed(name)])
        return [TopicEntry(name, topic.partitions) for name, topic in sorted(found.items())]

    def records(self, topic: str, query: RecordQuery) -> RecordPage:
        with browsing(self._requests, f"reading topic {topic}"):
            properties = {**self._settings.config.internal_client_properties, **_COMMITTED}
            return self._page(topic, query, logged(range_conf(properties, _READER)), {})

    def records_of(self, connector: str, topic: str, query: RecordQuery) -> RecordPage:
        snapshot = self._requests.known(connector)
        with browsing(self._requests, f"reading topic {topic} of connector {connector}"):
            config = known(self._settings.config, snapshot.connectors[connector])
            lineage = lineage_of(snapshot, connector, self._used(connector))
            read, written = (
                {end.name for end in ends if end.type == "topic"} for ends in (lineage.reads, lineage.writes)
            )
            if topic not in read | written:
                raise BadRequestError(
                    f"{topic} is not a topic that {connector} is known to read or write: "
                    f"{', '.join(sorted(read | written)) or 'there is none yet'}"
                )
            release = hold_given_secrets(config)  # a record may hold what the connector does (E11)
            try:
                return self._page(topic, query, self._conf(config, is_read=topic in read), config)
            finally:
                release()

    def _conf(self, config: RawConfig, *, is_read: bool) -> dict[str, Any]:
        """Return the settings of a consumer where the connector reads, or where its producers write."""
        recipes = ClientRecipes(self._settings.config, self._settings.is_exactly_once)
        if not is_read:
            return logged(recipes.dead_letter_reader(config, _READER).translated(lambda own: own))
        recipe = recipes.range(config, _READER)
        return logged(replace(recipe, own={**recipe.own, **_COMMITTED}).translated(lambda own: own))

    def _page(self, topic: str, query: RecordQuery, conf: Mapping[str, Any], config: RawConfig) -> RecordPage:
        if self._is_closed(topic):
            raise BadRequestError(f"{topic}: {CLOSED}")
        view = RecordView(topic, with_converters(config, self._settings.config))
        with self._room.held():
            try:
                browser = TopicBrowser(conf, topic, timeout_s=ASK_S)
            except MissingTopicError as error:
                raise NotFoundError(str(error)) from error
            page = read_page(browser, conf, query)
            records = [view.shown(record) for record in page.records]
        return RecordPage(topic, len(browser.ranges), records, text_of(page.next))

    def _is_closed(self, topic: str) -> bool:
        return self._settings.config.closed_topics.has(topic)
