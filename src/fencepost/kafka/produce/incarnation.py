"""An incarnation of a `BatchClient`: from `init_transactions` until an error ends it. Nothing is sent after that error.

Two kinds of errors do not end it: if a broker answers that it is still busy (`errors.BUSY`), the request is sent again;
if the group's coordinator or the client itself refuses something, the transaction can be aborted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError

from fencepost.kafka.errors import AnswerError, LostError, TooLargeError, UnsupportedError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.produce.protocol import Protocol
from fencepost.kafka.produce.transactional_client import Failure, ProducerError, classify

_CONNECT_AGAIN_S = 0.05
_FINAL = frozenset({KafkaError.INVALID_TRANSACTION_TIMEOUT, KafkaError.UNSUPPORTED_VERSION})


class Incarnation:
    """The present incarnation: its protocol, the error that has ended it, and the strikes of all of them so far.

    For one thread at a time; `drop` is for any.
    """

    def __init__(self, connect: Callable[[], Protocol]) -> None:
        """`connect` makes the protocol of each incarnation, and sends nothing yet."""
        self.fork = ForkGuard()
        self._connect = connect
        self.protocol: Protocol | None = None
        self._is_dropped = False
        self.over: ProducerError | None = None
        self.strikes: list[str] = []
        self.is_slow = False

    def start(self, timeout_s: float) -> None:
        """Start an incarnation with new connections and the next epoch of the transactional id.

        InitProducerId is sent once: after a lost answer, the late first request could fence the second one.
        """
        self.fork.check("a producer")
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self._open(deadline_s)
                return
            except LostError as error:
                if error.is_sent or time.monotonic() + _CONNECT_AGAIN_S >= deadline_s:
                    raise ProducerError(Failure.PASSING, str(error)) from None
            except AnswerError as error:
                raise error_of_answer(error) from None
            except UnsupportedError as error:
                raise ProducerError(Failure.FATAL, str(error)) from None
            time.sleep(_CONNECT_AGAIN_S)

    def _open(self, deadline_s: float) -> None:
        if self.protocol is not None:
            self.protocol.cluster.close()
        self.protocol = self._connect()
        self.over = None
        if self._is_dropped:  # by another thread in the meantime: going on might fence the successor
            self.drop()
            raise _closed()
        self.protocol.coordinator.take_over(deadline_s)  # E2

    def drop(self) -> None:
        """End the incarnation, and every later one, without sending anything. Idempotent."""
        self.fork.check("a producer")
        self._is_dropped = True
        self.over = self.over or _closed()
        protocol = self.protocol
        if protocol is not None:
            protocol.cluster.close()

    @contextmanager
    def sending(self) -> Iterator[Protocol]:
        """Yield the protocol to send with. Any error in the block ends the incarnation."""
        self.fork.check("a producer")
        if self.over is not None:
            raise self.over
        if self.protocol is None:
            raise ProducerError(Failure.FATAL, "call init_transactions() first")
        try:
            yield self.protocol
        except AnswerError as error:
            raise self.end(error_of_answer(error)) from None
        except (LostError, UnsupportedError) as error:
            self.is_slow |= isinstance(error, LostError) and error.is_late and self.protocol.batches.is_answering
            raise self.end(ProducerError(Failure.PASSING, str(error))) from None
        except ProducerError:
            raise
        except BaseException as error:  # such as a callback's: records may not have been sent (E1)
            self.end(ProducerError(Failure.PASSING, f"{type(error).__name__}: {error}"))
            raise

    @contextmanager
    def aborting(self) -> Iterator[tuple[Protocol, ProducerError | None]]:
        """Yield the protocol to abort with, also after an error has ended the incarnation, which is yielded too."""
        over, self.over = self.over, None
        try:
            with self.sending() as protocol:
                yield protocol, over
        finally:
            self.over = over or self.over

    def end(self, error: ProducerError) -> ProducerError:
        """End the incarnation. A fenced producer's error is not counted as a strike."""
        if self.over is None:
            self.over = error  # E21
            if error.failure is not Failure.FENCED:
                self.strikes.append(str(error))
        return self.over


def error_of_answer(error: AnswerError) -> ProducerError:
    """Convert an error answer to a ProducerError, with librdkafka's text."""
    said = KafkaError(error.code)
    failure = Failure.FATAL if error.code in _FINAL else classify(said)
    if isinstance(error, TooLargeError):
        failure = Failure.REFUSED_RECORD
    detail = f": {error.detail}" if error.detail else ""
    return ProducerError(failure, f"{said.name()}: {said.str()} ({error.what}{detail})")


def _closed() -> ProducerError:
    return ProducerError(Failure.PASSING, "the producer is closed")
