"""One connection to a broker: requests go out one behind the other, answers are taken when somebody needs them.

Bytes are kafka-python's: its protocol without its loop, its SASL mechanisms. There is no thread: the caller sends, and
the caller waits. A request is written once.
"""

import logging
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.wire.access import Access, Address
from fencepost.kafka.wire.errors import AnswerError, LostError, UnsupportedError, ensure
from fencepost.kafka.wire.frame import Data, Frames

log = logging.getLogger(__name__)

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
OnAnswer = Callable[[Any], None]
_NAME = "fencepost"
_PART_BYTES = 65_536
_LONGEST_NAP_S = 1.0
_IDLE_S = 5.0  # for which no broker, nor what stands before it, closes a connection
_FORGOTTEN_S = 60.0  # after which what stands before it may know it no more, and says so when it is used
_RENEWED_AFTER = 0.85  # of the time for which a broker lets a principal in


def _clock_s() -> float:
    """Return the time of a clock that goes on while the machine is suspended: the other side's does."""
    return time.clock_gettime(_CLOCK)


def connect(address: Address, access: Access, deadline_s: float) -> "Connection":
    """Return a new connection. Where the broker refuses a token that was kept, it is tried with a new one.

    Raises what `Connection` does.
    """
    kept = access.token
    try:
        return Connection(address, access, deadline_s)
    except AnswerError as error:
        if error.code != KafkaError.SASL_AUTHENTICATION_FAILED or not kept or access.token == kept:
            raise
        log.info("%s:%d does not take a token any more that it took before: asking for another", *address)
        return Connection(address, access, deadline_s)


class Connection:
    """Used by one thread at a time; `close` by any. Every method raises LostError, and then the connection is gone."""

    def __init__(self, address: Address, access: Access, deadline_s: float) -> None:
        """Connect, agree on versions, and be let in.

        Raises:
            LostError: the broker cannot be reached in time.
            AnswerError: it does not let the principal in.
        """
        self.address = address
        self._access = access
        self._frames = Frames(access.client_id)
        self._answers: deque[OnAnswer] = deque()
        self._arrived: deque[Any] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self._waits_until_s = self._renew_at_s = self._sent_s = 0.0
        self._granted_until_s = 0.0  # behind the deadline of who had to wait for a quota
        self._socket = self._connected(deadline_s)
        try:
            self._agree(deadline_s)
            if access.mechanism is not None:
                self._authenticate(access.mechanism, deadline_s)
        except BaseException:
            self.close()
            raise

    @property
    def unanswered(self) -> int:
        """Return how many requests have no answer yet."""
        return len(self._answers)

    @property
    def is_throttled(self) -> bool:
        """Say whether the broker has asked for silence that is not over: who sends waits for that."""
        return time.monotonic() < self._waits_until_s

    def fileno(self) -> int:
        """Return the number of its socket, -1 where it is closed."""
        return self._socket.fileno()

    @property
    def has_more(self) -> bool:
        """Say whether something was read from its socket, and not taken: nobody who waits for the socket sees it."""
        return isinstance(self._socket, ssl.SSLSocket) and self.fileno() >= 0 and self._socket.pending() > 0

    def version(self, request: Any, oldest: int, newest: int) -> int:
        """Return the newest version of a kind of request that both sides know. Raises UnsupportedError."""
        low, high = self._versions.get(request.API_KEY, (0, -1))
        version = min(newest, high)
        if version < max(low, oldest):
            raise UnsupportedError(
                f"broker {self.address[0]}:{self.address[1]} speaks versions {low} to {high} of {request.name}, "
                f"and versions {oldest} to {newest} are needed"
            )
        return version

    @property
    def may_have_ended(self) -> bool:
        """Say whether the broker may have closed it: nothing was sent for some time, or somebody was let in long ago.

        Who sends takes all answers first, then, and asks `is_usable`.
        """
        return self._idle_s > _IDLE_S or self._is_to_be_renewed

    @property
    def _idle_s(self) -> float:
        """Return for how long nothing was sent."""
        return _clock_s() - self._sent_s

    @property
    def _is_to_be_renewed(self) -> bool:
        return self._renew_at_s > 0 and _clock_s() >= self._renew_at_s

    def is_usable(self) -> bool:
        """Say whether a request may be sent: brokers close connections that were idle, or in for too long.

        A load balancer that has dropped one does not close it. Ask only while nothing is under way.
        """
        if self._is_to_be_renewed or self._idle_s > _FORGOTTEN_S:
            return False
        try:
            self._socket.settimeout(0)
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def send(
        self,
        request: Any,
        version: int,
        on_answer: OnAnswer,
        deadline_s: float,
        body: Sequence[Data] | None = None,
    ) -> None:
        """Send a request, or one of its class with the body that is given; `on_answer` is called with its answer.

        That is when the answer is taken.
        """
        self._await_quota()
        pieces = self._frames.framed(request, version, body)  # E21
        self._answers.append(on_answer)
        self._sent_s = _clock_s()
        try:
            for piece in pieces:
                self._socket.settimeout(self._left_s(deadline_s))
                self._socket.sendall(piece)
        except (OSError, ValueError) as error:
            raise self._lost(error) from None

    def take(self, deadline_s: float, leave: int = 0) -> None:
        """Take answers until only so many are due. Raises what their callbacks raise, too."""
        while len(self._answers) > leave:
            self._hand_over(self._next(deadline_s))

    def take_coming(self, until_s: float) -> bool:
        """Take what comes until then, and say whether nothing is due any more; an answer that has begun may go on.

        Raises what the callbacks of answers raise, too.
        """
        while self._answers:
            if self._arrived:
                self._hand_over(self._arrived.popleft())
            elif time.monotonic() > until_s or not self._receive(until_s):
                return False
        return True

    def ask(self, request: Any, version: int, deadline_s: float) -> Any:
        """Send a request and return its answer; the answers due before it are taken first."""
        found: list[Any] = []
        self.send(request, version, found.append, deadline_s)
        self.take(deadline_s)
        return found[0]

    def close(self) -> None:
        """Let go at once; whoever waits for an answer is told so."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _connected(self, deadline_s: float) -> socket.socket:
        tls = self._access.tls
        try:
            left_s = max(0.001, min(self._access.connect_s, deadline_s - time.monotonic()))
            plain = socket.create_connection(self.address, left_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return plain if tls is None else tls.wrap_socket(plain, server_hostname=self.address[0])
        except ssl.SSLCertVerificationError as error:
            raise AnswerError(
                KafkaError._AUTHENTICATION, f"connecting to {self.address[0]}:{self.address[1]}", str(error)
            ) from None
        except OSError as error:
            raise LostError(f"cannot connect to {self.address[0]}:{self.address[1]}: {error}", is_sent=False) from None

    def _agree(self, deadline_s: float) -> None:
        """Ask which versions the broker has: one that does not know how we ask answers in the oldest way."""
        from kafka.protocol.metadata import ApiVersionsRequest

        asked = ApiVersionsRequest(client_software_name=_NAME, client_software_version="1")
        answer = self.ask(asked, ApiVersionsRequest.max_version, deadline_s)
        if answer.error_code == KafkaError.UNSUPPORTED_VERSION:
            known = next((k.max_version for k in answer.api_keys or () if k.api_key == asked.API_KEY), 0)
            asked = ApiVersionsRequest(client_software_name=_NAME, client_software_version="1")
            answer = self.ask(asked, min(known, ApiVersionsRequest.max_version), deadline_s)
        ensure(answer.error_code, "ApiVersions")
        self._versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        self.features = {each.name: each.max_version_level for each in answer.finalized_features or ()}

    def _authenticate(self, mechanism: str, deadline_s: float) -> None:
        from kafka.net.sasl import get_sasl_mechanism
        from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

        answer = self.ask(SaslHandshakeRequest(mechanism=mechanism), 1, deadline_s)
        if answer.error_code:
            detail = f"the broker has {', '.join(answer.mechanisms)}, not {mechanism}"
            raise AnswerError(KafkaError.SASL_AUTHENTICATION_FAILED, "SaslHandshake", detail)
        conversation = get_sasl_mechanism(mechanism)(host=self.address[0], **self._access.sasl)
        version = self.version(SaslAuthenticateRequest, 0, 2)
        while not conversation.is_done():
            try:
                said = conversation.auth_bytes()
            except OSError as error:  # whoever gives tokens does not, just now
                raise self._lost(error) from None
            token = self._access.token
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=said), version, deadline_s)
            if answer.error_code:
                self._access.refused(token)
            ensure(answer.error_code, "SaslAuthenticate", answer.error_message)
            try:
                conversation.receive(answer.auth_bytes)
            except ValueError as error:
                raise AnswerError(KafkaError.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate", str(error)) from None
        lifetime_s = max(0, answer.session_lifetime_ms or 0) / 1000
        self._renew_at_s = _clock_s() + lifetime_s * _RENEWED_AFTER if lifetime_s else 0.0

    def _await_quota(self) -> None:
        """Wait as long as the broker has asked for, as it would not read before, whatever deadline the caller has.

        What is asked then has the time for an answer that it would have had. `close` by another thread ends the wait.
        """
        if not self.is_throttled:
            return
        while (left_s := self._waits_until_s - time.monotonic()) > 0:
            if self.fileno() < 0:
                raise self._lost(ConnectionError("closed while a quota had it wait"))
            time.sleep(min(left_s, _LONGEST_NAP_S))
        self._granted_until_s = time.monotonic() + self._access.answer_s

    def _hand_over(self, answer: Any) -> None:
        throttled_s = (getattr(answer, "throttle_time_ms", 0) or 0) / 1000
        if throttled_s:
            log.debug("%s:%d asks for %g s of silence", *self.address, throttled_s)
            self._waits_until_s = max(self._waits_until_s, time.monotonic() + throttled_s)
        self._answers.popleft()(answer)

    def _next(self, deadline_s: float) -> Any:
        while not self._arrived:
            if not self._receive(deadline_s):
                raise self._lost(TimeoutError("timed out"))
        return self._arrived.popleft()

    def _receive(self, deadline_s: float) -> bool:
        """Take a part of what arrives; says whether any did in time."""
        try:
            self._socket.settimeout(self._left_s(deadline_s))
            room = self._frames.room()
            if room is None:
                data = self._socket.recv(_PART_BYTES)
                count, found = len(data), self._frames.answers(data)
            else:
                count = self._socket.recv_into(room)
                found = self._frames.filled(count)
            if not count:
                raise ConnectionError("the broker closed the connection")
            self._arrived.extend(found)
        except TimeoutError:
            return False
        except (OSError, ValueError) as error:
            raise self._lost(error) from None
        except Exception as error:  # kafka-python's: bytes that are no answer to what was asked
            raise self._lost(error) from error
        return True

    def _left_s(self, deadline_s: float) -> float:
        until_s = max(deadline_s, self._granted_until_s)
        return max(0.001, min(self._access.answer_s, until_s - time.monotonic()))

    def _lost(self, error: Exception) -> LostError:
        self.close()
        why = str(error) or type(error).__name__
        is_late = isinstance(error, TimeoutError)
        return LostError(f"{self.address[0]}:{self.address[1]}: {why}", is_sent=bool(self._answers), is_late=is_late)


def answering(connections: Sequence[Connection], timeout_s: float) -> list[Connection]:
    """Return those of which an answer comes, or that are lost; waits for the first of them."""
    found = [each for each in connections if each.fileno() < 0 or each.has_more]
    with selectors.DefaultSelector() as selector:
        for each in connections:
            if each not in found:
                selector.register(each, selectors.EVENT_READ, each)
        return found + [key.data for key, _ in selector.select(0 if found else timeout_s)]
