"""Resends that this worker runs while it leads: at most one of a connector, each in a thread of its own."""

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.api import ConnectError, FencedError
from fencepost.cluster.command import now_ms
from fencepost.cluster.dead_letters import COUNTING, RUNNING, SENDING, ResendProgressInfo
from fencepost.cluster.errors import ConflictError
from fencepost.config import ConfigError
from fencepost.dead_letter.choice import Selection, Skipped
from fencepost.dead_letter.progress import progress_name
from fencepost.dead_letter.resend import Resend
from fencepost.dead_letter.survey import Survey, shown_topic
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.telemetry.secret import hide
from fencepost.telemetry.subject import about

log = logging.getLogger(__name__)

_MOST_RUNNING = 4
_MOST_KEPT = 100


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
        with Bookmark(self.reader_conf, progress_name(self.connector), self.topic) as bookmark:
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
