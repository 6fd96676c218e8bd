"""A topic of the machinery of mirroring, read as far as it goes, again and again."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, MissingTopicError
from fencepost.kafka.read.log import Handler, LogReader


class FollowedTopic:
    """Hands every committed record to `on_record`; where the topic is another one by now, calls `on_begin` first.

    It is read from its beginning then: it was deleted and made again, or what was to be read next is not there any
    more. One thread. Nothing connects before the first `catch_up`.
    """

    def __init__(
        self, conf: Mapping[str, Any], topic: str, *, on_begin: Callable[[], None], on_record: Handler, timeout_s: float
    ) -> None:
        self.topic = topic
        self._conf = conf
        self._on_begin = on_begin
        self._on_record = on_record
        self._timeout_s = timeout_s
        self._reader: LogReader | None = None
        self._id: str | None = None

    def catch_up(self, *, waits: bool = False) -> bool:
        """Hand over what has come, up to the first open transaction unless it `waits` for them.

        False: there is no such topic.

        Raises KafkaUnavailableError where it is to be tried again, KafkaAuthorizationError.
        """
        try:
            reader = self._current()
            if reader is None:
                return False
            reader.read_to_end(self._timeout_s, self._on_record, waits=waits, looks=False)
        except MissingTopicError:
            return False
        except KafkaRequestError as error:
            self.close()
            raise KafkaUnavailableError(f"Topic {self.topic} is read from its beginning: {error}") from error
        return True

    def close(self) -> None:
        """Stop reading. Idempotent; another `catch_up` begins anew."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _current(self) -> LogReader | None:
        if self._reader is None:
            self._reader, self._id = LogReader(self._conf, self.topic), None
        found = self._reader.look(self._timeout_s)
        if found is None:
            self.close()
            return None
        if self._id is None:
            self._id = found
            self._on_begin()
        elif found != self._id:
            self.close()
            return self._current()
        return self._reader
