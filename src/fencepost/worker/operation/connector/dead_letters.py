"""Dead letters of connectors: any worker shows them, and the leader resends those of sinks."""

from typing import Any

from fencepost.cluster.dead_letters import LetterPage, LetterQuery, ResendProgressInfo, ResendRequest
from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import ConnectorType
from fencepost.config.closed_topics import closed_fault
from fencepost.config.connector import DeadLetterConfig
from fencepost.config.raw import RawConfig, names_in
from fencepost.dead_letter.choice import Selection, Skipped
from fencepost.dead_letter.page import places, read_page
from fencepost.dead_letter.progress import handled_in, progress_name
from fencepost.dead_letter.survey import RESEND
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.worker.client_recipes import BOOTSTRAP, ClientRecipes
from fencepost.worker.connector_classes import type_of_config
from fencepost.worker.operation.connector.browsing import ASK_S, Room, browsing
from fencepost.worker.operation.connector.resend_targets import ResendTargets
from fencepost.worker.operation.connector.resends import Resends, ResendWork
from fencepost.worker.operation.request import Requests
from fencepost.worker.settings import WorkerSettings, known, logged

_TOPIC = DeadLetterConfig.key_of("dead_letters_topic")
_READER = "fencepost-dead-letters"  # a group without commits


class DeadLetters:
    """The `DeadLetterOperations` of a worker."""

    def __init__(self, requests: Requests, settings: WorkerSettings, resends: Resends) -> None:
        self._requests = requests
        self._settings = settings
        self._resends = resends
        self._room = Room("dead letters")

    def read(self, name: str, query: LetterQuery) -> LetterPage:
        with browsing(self._requests, f"reading dead letters of connector {name}"), self._room.held():
            config = self._looked_up(self._raw_config(name))
            topic, conf, before = self._topic(name, config), self._reader_conf(config), places(query.before)
            try:
                browser = TopicBrowser(conf, topic, timeout_s=ASK_S)
            except MissingTopicError:
                return LetterPage(topic, ())
            with Bookmark(conf, progress_name(name), topic, timeout_s=ASK_S) as bookmark:
                handled = handled_in(bookmark.group, bookmark.peek(browser.ranges))
            release = hold_given_secrets(config)  # a record may hold what the connector does (E11)
            try:
                return read_page(browser, name, handled, limit=query.limit, before=before)
            finally:
                release()

    def resend(self, name: str, request: ResendRequest) -> ResendProgressInfo:
        self._requests.ensure_leading()
        with browsing(self._requests, f"looking up the config of connector {name}"):
            raw = self._raw_config(name)  # for what looks up its references itself
            config = self._looked_up(raw)
            topic, own_topic = self._topic(name, config), (config.get(RESEND) or "").strip()
            targets = ResendTargets.of(self._settings.config, config, topic)
            self._ensure_can_be_resent(name, raw, type_of_config(config))
            if targets.is_closed(own_topic):
                raise BadRequestError(f"{RESEND}={own_topic}: that topic has another use. Name a topic for this alone")
            work = ResendWork(
                name,
                topic,
                own_topic,
                None if request.letters is None else Selection(topic, request.letters),
                Skipped.of(topic, request.skip),
                targets.has,
                self._reader_conf(config),
                self._settings.fencing_conf(raw),
            )
        return self._resends.begin(work)

    def progress(self, name: str) -> ResendProgressInfo:
        self._requests.known(name)
        self._requests.ensure_leading()
        return self._resends.progress(name)

    def _raw_config(self, name: str) -> RawConfig:
        return self._requests.known(name).connectors[name]

    def _looked_up(self, raw: RawConfig) -> RawConfig:
        """Return a connector's config with its references replaced: they must not be replaced again."""
        return known(self._settings.config, raw)

    def _topic(self, name: str, config: RawConfig) -> str:
        """Return the topic of the dead letters. A reference may name one of the workers' since validation."""
        topic = (config.get(_TOPIC) or "").strip()
        if not topic:
            raise BadRequestError(f"{name} has no dead letter topic: set {_TOPIC} in its config")
        if self._settings.config.closed_topics.has(topic):
            raise BadRequestError(closed_fault(_TOPIC, topic))
        return topic

    def _reader_conf(self, config: RawConfig) -> dict[str, Any]:
        recipes = ClientRecipes(self._settings.config, self._settings.is_exactly_once)
        return logged(recipes.dead_letter_reader(config, _READER).translated(lambda own: own))

    def _ensure_can_be_resent(self, name: str, raw: RawConfig, kind: ConnectorType) -> None:
        if kind is not ConnectorType.SINK:
            raise BadRequestError(
                f"{name} is a {kind.value}: its dead letters describe records, and cannot be resent as they were. "
                "Correct the cause, stop the connector, move its offsets to before these records, and resume it"
            )
        reads = str(self._settings.consumer_properties(raw)[BOOTSTRAP])
        writes = str(self._settings.producer_properties(raw)[BOOTSTRAP])
        if {*names_in(reads)} != {*names_in(writes)}:
            raise BadRequestError(
                f"{name} reads from another Kafka ({reads}) than the one with its dead letters ({writes}): one "
                "transaction cannot span both"
            )
