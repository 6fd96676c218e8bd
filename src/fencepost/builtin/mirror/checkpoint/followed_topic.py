"""An internal topic of mirroring that is read to its end repeatedly."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, MissingTopicError
from fencepost.kafka.read.log import Handler, LogReader


class FollowedTopic:
    """Passes every committed record to `on_record`. If the topic was replaced, calls `on_begin` first.

    It is then read from its beginning: it was deleted and recreated, or its next record has been deleted. One thread.
    Nothing connects before the first `catch_up`.
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
        """Pass on new records, up to the first open transaction, or past it if it `waits` for transactions to end.

        Returns False if the topic does not exist.

        Raises KafkaUnavailableError if it is to be retried, KafkaAuthorizationError.
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
            raise KafkaUnavailableError(f"Topic {self.topic} will be read again from its beginning: {error}") from error
        return True

    def close(self) -> None:
        """Stop reading. Idempotent; another `catch_up` starts from the beginning."""
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
