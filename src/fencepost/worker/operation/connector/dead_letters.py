"""Dead letters of connectors: any worker shows them, and the leader resends those of sinks."""

import logging
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.api import ConnectError, FencedError, RecordError
from fencepost.cluster.command import now_ms
from fencepost.cluster.errors import BadRequestError, ConflictError
from fencepost.cluster.info import ConnectorType
from fencepost.cluster.topic_records import (
    COUNTING,
    RUNNING,
    SENDING,
    LetterPage,
    LetterQuery,
    ResendProgressInfo,
    ResendRequest,
)
from fencepost.config import ConfigError
from fencepost.config.check import topic_name
from fencepost.config.cluster import closed_fault
from fencepost.config.connector import DeadLetterConfig, SinkConnectorConfig
from fencepost.config.reference import RawConfig, given_values, names_in
from fencepost.config.worker import WorkerConfig
from fencepost.dead_letter.letter import Selection, Skipped
from fencepost.dead_letter.page import places, read_page
from fencepost.dead_letter.progress import handled_in, progress_name
from fencepost.dead_letter.resend import RESEND, Resend, Survey, shown_topic
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.group.memberless import Bookmark
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.secret.known import hide
from fencepost.task.sink.reader import ReadTopics
from fencepost.telemetry.loggers import about
from fencepost.worker.operation.connector.topic_records import ASK_S, Room, browsing
from fencepost.worker.operation.request import Requests
from fencepost.worker.plan import BOOTSTRAP, Client, ConnectorPlan, known, type_of_config
from fencepost.worker.settings import WorkerSettings

_OFFSETS = "offsets.storage.topic"
_fault = topic_name()
log = logging.getLogger(__name__)

_MOST_RUNNING = 4
_MOST_KEPT = 100
_TOPIC = DeadLetterConfig.key_of("dead_letters_topic")
_READER = "fencepost-dead-letters"  # a group without commits


class ResendTargets:
    """The topics that a sink reads by its config, without those that are Kafka's, the worker's, or of dead letters.

    Whoever can write to the dead letter topic can name any topic in a header, and the worker's rights are not for that.
    """

    def __init__(self, read: ReadTopics, own: Iterable[str]) -> None:
        """`own`: topics of the connector's own, to which nothing is resent, whatever the sink reads."""
        self._read = read
        self._own = frozenset(own)
        self._is_readable = True
        self._known: dict[str, bool] = {}

    @classmethod
    def of(cls, worker: WorkerConfig, config: RawConfig, dead_letters: str) -> "ResendTargets":
        """Return those of a sink with this config, whose references are replaced."""
        sink = SinkConnectorConfig(given_values(config))
        read = ReadTopics(tuple(sink.topics), sink.topics_regex or "", worker.closed_topics)
        return cls(read, filter(None, (config.get(_OFFSETS), dead_letters)))

    def has(self, topic: str) -> bool:
        """Say whether dead letters may be resent to a topic: to none by a pattern that is wrong or takes too long."""
        if topic not in self._known:
            self._known[topic] = self._has(topic)
        return self._known[topic]

    def is_closed(self, topic: str) -> bool:
        return topic in self._own or self._read.closed.has(topic)

    def _has(self, topic: str) -> bool:
        if self.is_closed(topic) or _fault(topic) is not None:  # what no topic is called may be made to take long
            return False
        if topic in self._read.names:
            return True
        try:
            return self._is_readable and self._read.has(topic)
        except (ConfigError, RecordError, ValueError, re.error):
            self._is_readable = False  # each topic could take as long
            return False


@dataclass(frozen=True)
class ResendWork:
    """What one resend is made with: a reader's and a transactional producer's settings, and what to send where.

    `reads` says whether the sink reads a topic. Whoever can write to the dead letter topic can name any topic in a
    header, and the worker's rights are not for that.
    """

    connector: str
    topic: str
    own_topic: str
    selection: Selection | None
    skipped: Skipped
    reads: Callable[[str], bool]
    reader_conf: dict[str, Any] = field(repr=False)
    producer_conf: dict[str, Any] = field(repr=False)

    def run(self, is_wanted: Callable[[], bool], tell: Callable[..., None]) -> bool:
        """Send what waits, or pass over it; `tell` gets what is known of it meanwhile. Returns whether it is all."""
        browser = TopicBrowser(self.reader_conf, self.topic)
        bookmark = Bookmark(self.reader_conf, progress_name(self.connector), self.topic)
        given = self.own_topic, self.skipped, self.selection
        resend = Resend(self.connector, browser, bookmark, *given, is_wanted, self.reads)
        survey = resend.survey()
        if not is_wanted():
            return False
        if not self.own_topic:
            self._ensure_have_somewhere_to_go(survey)
        tell(state=SENDING, total=survey.total, skipped=survey.skipped)
        sent = 0

        def committed(count: int) -> None:
            nonlocal sent
            sent += count
            tell(sent=sent)

        resend.send(self.producer_conf, committed)
        return is_wanted()

    def _ensure_have_somewhere_to_go(self, survey: Survey) -> None:
        foreign = sorted(topic for topic in survey.targets if not self.reads(topic))
        if foreign:
            raise ConfigError(
                f"Dead letters of {self.connector} came from topics that it does not read: "
                f"{', '.join(map(shown_topic, foreign[:10]))}{', …' if len(foreign) > 10 else ''}. "
                f"Nothing is sent. Resend them with rights of your own (`fencepost dead-letters {self.connector} "
                "--resend`), or pass over them"
            )
        with closing(Admin(self.reader_conf)) as admin:
            survey.ensure_have_somewhere_to_go(self.connector, admin.topics.partitions)


class _Wanted:
    """Whether one resend is wanted. Once it is not, it never is again: what it has read since then is not all."""

    def __init__(self, is_wanted: Callable[[str], bool], connector: str) -> None:
        self._is_wanted = is_wanted
        self._connector = connector
        self._is_over = False

    def __call__(self) -> bool:
        self._is_over = self._is_over or not self._is_wanted(self._connector)
        return not self._is_over


class Resends:
    """The resends of all connectors, and how each has ended. Any thread.

    What they have done is in Kafka, in their transactions. So whoever asks again after the end of a worker, or of its
    lead, sends what is left.
    """

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        """`is_wanted(connector)` is asked all the time; if it is not, its resend ends with the open transaction."""
        self._is_wanted = is_wanted
        self._lock = threading.Lock()
        self._known: dict[str, ResendProgressInfo] = {}  # the last one begun is the last one

    def begin(self, work: ResendWork) -> ResendProgressInfo:
        """Start one. Raises ConflictError if one of the connector is running, or too many of others are."""
        name, begun = work.connector, ResendProgressInfo(COUNTING, started_ms=now_ms())
        with self._lock:
            now = self._known.get(name)
            if now is not None and now.state in RUNNING:
                of = "" if now.total is None else f" of {now.total}"
                raise ConflictError(
                    f"Dead letters of connector {name} are being resent already, and {now.sent}{of} are sent: wait for "
                    "the end of that"
                )
            if sum(one.state in RUNNING for one in self._known.values()) >= _MOST_RUNNING:
                raise ConflictError(f"The dead letters of {_MOST_RUNNING} other connectors are being resent: try later")
            threading.Thread(target=self._run, args=(work,), name=f"resend-{name}", daemon=True).start()
            self._known.pop(name, None)
            self._known[name] = begun
            ended = [each for each, info in self._known.items() if info.state not in RUNNING]
            for oldest in ended[: max(0, len(self._known) - _MOST_KEPT)]:
                del self._known[oldest]
        return begun

    def progress(self, connector: str) -> ResendProgressInfo:
        """Return how far the last one of a connector is, or how it has ended."""
        with self._lock:
            return self._known.get(connector, ResendProgressInfo("none"))

    def _run(self, work: ResendWork) -> None:
        name = work.connector

        def tell(**known: Any) -> None:
            with self._lock:
                self._known[name] = replace(self._known[name], **known)

        with about(name):
            state, error = "failed", None
            try:
                state = "done" if work.run(_Wanted(self._is_wanted, name), tell) else "stopped"
            except FencedError as failure:
                error = (
                    f"Another process has begun to resend dead letters of a connector {name}: the same ones, or those "
                    "of a connector of that name in another Connect cluster on this Kafka. Ask for this resend again "
                    f"when that one has ended; it sends what is left: {failure}"
                )
            except (ConnectError, ConfigError) as failure:
                error = str(failure)
            except Exception as failure:
                log.exception("resending dead letters of %s failed", name)
                error = f"Unexpected {type(failure).__name__}; the log of this worker has the details."
            finally:
                error = None if error is None else hide(error)
                tell(state=state, error=error, ended_ms=now_ms())
            _log_end(name, self.progress(name))


def _log_end(name: str, info: ResendProgressInfo) -> None:
    level = logging.WARNING if info.error else logging.INFO
    log.log(level, "resending dead letters of %s: %s, %d sent%s", name, info.state, info.sent,
            f" ({info.error})" if info.error else "")  # fmt: skip


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
            bookmark = Bookmark(conf, progress_name(name), topic, timeout_s=ASK_S)
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
                self._settings.plan(raw).clients.conf(Client.FENCING),
            )
        return self._resends.begin(work)

    def progress(self, name: str) -> ResendProgressInfo:
        self._requests.known(name)
        self._requests.ensure_leading()
        return self._resends.progress(name)

    def _raw_config(self, name: str) -> RawConfig:
        return self._requests.known(name).connectors[name]

    def _looked_up(self, raw: RawConfig) -> RawConfig:
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
        plan = ConnectorPlan.of_values(self._settings.config, config)
        return plan.clients.conf(Client.DEAD_LETTER_READER, _READER)

    def _ensure_can_be_resent(self, name: str, raw: RawConfig, kind: ConnectorType) -> None:
        if kind is not ConnectorType.SINK:
            raise BadRequestError(
                f"{name} is a {kind.value}: its dead letters describe records, and cannot be resent as they were. "
                "Correct the cause, stop the connector, move its offsets to before these records, and resume it"
            )
        clients = self._settings.plan(raw).clients
        reads, writes = (str(each[BOOTSTRAP]) for each in (clients.consumer_properties, clients.producer_properties))
        if {*names_in(reads)} != {*names_in(writes)}:
            raise BadRequestError(
                f"{name} reads from another Kafka ({reads}) than the one with its dead letters ({writes}): one "
                "transaction cannot span both"
            )
