"""One connection to a broker: requests are sent one after another, and answers are read when a caller needs them.

It uses kafka-python's protocol, without its loop, and its SASL mechanisms. There is no thread: the caller sends and
waits. A request is written once.
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

from fencepost.kafka.errors import AnswerError, LostError, UnsupportedError, ensure
from fencepost.kafka.wire.access import Access, Address
from fencepost.kafka.wire.frame import Data, Frames

log = logging.getLogger(__name__)

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
OnAnswer = Callable[[Any], None]
_NAME = "fencepost"
_PART_BYTES = 65_536
_LONGEST_NAP_S = 1.0
_IDLE_S = 5.0  # no broker or load balancer closes a connection that was idle for less
_FORGOTTEN_S = 60.0  # a load balancer may have dropped a connection that was idle for longer
_RENEWED_AFTER = 0.85  # of the lifetime of a SASL session


def _clock_s() -> float:
    """Return the time of a clock that continues while the machine is suspended, as the broker's does."""
    return time.clock_gettime(_CLOCK)


def connect(address: Address, access: Access, deadline_s: float) -> "Connection":
    """Return a new connection. If the broker refuses a cached token, this retries with a new one.

    Raises what `Connection` raises, but LostError as before anything is sent: the caller's request was not.
    """
    kept = access.token
    try:
        return Connection(address, access, deadline_s)
    except LostError as error:
        raise LostError(str(error), is_sent=False, is_late=error.is_late) from None
    except AnswerError as error:
        if error.code != KafkaError.SASL_AUTHENTICATION_FAILED or not kept or access.token == kept:
            raise
        log.info("%s:%d no longer accepts a token that it accepted before: fetching another", *address)
        return Connection(address, access, deadline_s)


class Connection:
    """For one thread at a time; `close` is for any. Methods raise LostError, and then the connection is gone."""

    def __init__(self, address: Address, access: Access, deadline_s: float) -> None:
        """Connect, negotiate versions, and authenticate.

        Raises:
            LostError: the broker cannot be reached in time.
            AnswerError: authentication failed.
        """
        self.address = address
        self.access = access
        self._frames = Frames(access.client_id)
        self._answers: deque[OnAnswer] = deque()
        self._arrived: deque[Any] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self.throttled_until_s = self._renew_at_s = self._sent_s = 0.0
        self._granted_until_s = 0.0  # may be after the deadline of a caller that had to wait for a quota
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
        """Return whether the broker throttles this connection at the moment. `send` waits until that is over."""
        return time.monotonic() < self.throttled_until_s

    def fileno(self) -> int:
        """Return the file descriptor of its socket; -1 if it is closed."""
        return self._socket.fileno()

    @property
    def has_more(self) -> bool:
        """Return whether bytes were read from the socket but not taken, which a wait on the socket would miss."""
        return isinstance(self._socket, ssl.SSLSocket) and self.fileno() >= 0 and self._socket.pending() > 0

    def version(self, request: Any, oldest: int, newest: int) -> int:
        """Return the newest version of a request that both sides support. Raises UnsupportedError."""
        low, high = self._versions.get(request.API_KEY, (0, -1))
        version = min(newest, high)
        if version < max(low, oldest):
            raise UnsupportedError(
                f"broker {self.address[0]}:{self.address[1]} supports versions {low} to {high} of {request.name}, "
                f"but versions {oldest} to {newest} are needed"
            )
        return version

    @property
    def may_have_ended(self) -> bool:
        """Return whether the broker may have closed it: it was idle for some time, or its SASL session is old.

        Before sending, then take all answers and check `is_usable`.
        """
        return self._idle_s > _IDLE_S or self._is_to_be_renewed

    @property
    def _idle_s(self) -> float:
        return _clock_s() - self._sent_s

    @property
    def _is_to_be_renewed(self) -> bool:
        return self._renew_at_s > 0 and _clock_s() >= self._renew_at_s

    def is_usable(self) -> bool:
        """Return whether a request may be sent: brokers close idle connections and those with an expired SASL session.

        A load balancer may drop a connection without closing it. Call this only while no answer is due.
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
        """Send a request, or one of its class with the given body. `on_answer` is called when its answer is taken."""
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
        """Take answers until only `leave` are due. Also raises the errors of their callbacks."""
        while len(self._answers) > leave:
            self._hand_over(self._next(deadline_s))

    def take_coming(self, until_s: float, leave: int = 0) -> bool:
        """Take answers until `until_s`. Returns whether only `leave` are due. An answer may remain partly received.

        Also raises the errors of the answers' callbacks.
        """
        while len(self._answers) > leave:
            if self._arrived:
                self._hand_over(self._arrived.popleft())
            elif time.monotonic() > until_s or not self._receive(until_s):
                return False
        return True

    def ask(self, request: Any, version: int, deadline_s: float) -> Any:
        """Send a request and return its answer. Earlier answers are taken first."""
        found: list[Any] = []
        self.send(request, version, found.append, deadline_s)
        self.take(deadline_s)
        return found[0]

    def close(self) -> None:
        """Close at once. A call that waits for an answer raises LostError."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _connected(self, deadline_s: float) -> socket.socket:
        tls = self.access.tls
        try:
            left_s = max(0.001, min(self.access.connect_s, deadline_s - time.monotonic()))
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
        """Ask for the broker's versions. A broker that does not know our version of it answers in the oldest."""
        from fencepost.kafka.kafka_library import ApiVersionsRequest

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
        from fencepost.kafka.kafka_library import SaslAuthenticateRequest, SaslHandshakeRequest, get_sasl_mechanism

        answer = self.ask(SaslHandshakeRequest(mechanism=mechanism), 1, deadline_s)
        if answer.error_code:
            detail = f"the broker supports {', '.join(answer.mechanisms)}, not {mechanism}"
            raise AnswerError(KafkaError.SASL_AUTHENTICATION_FAILED, "SaslHandshake", detail)
        try:
            conversation = get_sasl_mechanism(mechanism)(host=self.address[0], **self.access.sasl)
        except (LookupError, RuntimeError) as error:
            raise UnsupportedError(
                f"SASL mechanism {mechanism} cannot be used: {error}. GSSAPI needs the Python package gssapi"
            ) from None
        version = self.version(SaslAuthenticateRequest, 0, 2)
        while not conversation.is_done():
            try:
                said = conversation.auth_bytes()
            except OSError as error:  # no token can be fetched now
                raise self._lost(error) from None
            token, began_s = self.access.token, _clock_s()
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=said), version, deadline_s)
            if answer.error_code:
                self.access.refused(token)
            ensure(answer.error_code, "SaslAuthenticate", answer.error_message)
            try:
                conversation.receive(answer.auth_bytes)
            except ValueError as error:
                raise AnswerError(KafkaError.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate", str(error)) from None
        lifetime_s = max(0, answer.session_lifetime_ms or 0) / 1000
        # The broker's clock began when it answered; the answer may have been read late.
        self._renew_at_s = began_s + lifetime_s * _RENEWED_AFTER if lifetime_s else 0.0

    def _await_quota(self) -> None:
        """Wait until the broker's throttling is over, whatever the caller's deadline: it would not read before.

        The time waited is added to the deadline of the answer. `close` from another thread ends the wait.
        """
        if not self.is_throttled:
            return
        while (left_s := self.throttled_until_s - time.monotonic()) > 0:
            if self.fileno() < 0:
                raise self._lost(ConnectionError("closed while throttled by a quota"))
            time.sleep(min(left_s, _LONGEST_NAP_S))
        self._granted_until_s = time.monotonic() + self.access.answer_s

    def _hand_over(self, answer: Any) -> None:
        throttled_s = (getattr(answer, "throttle_time_ms", 0) or 0) / 1000
        if throttled_s:
            log.debug("%s:%d throttles this connection for %g s", *self.address, throttled_s)
            self.throttled_until_s = max(self.throttled_until_s, time.monotonic() + throttled_s)
        self._answers.popleft()(answer)

    def _next(self, deadline_s: float) -> Any:
        while not self._arrived:
            if not self._receive(deadline_s):
                raise self._lost(TimeoutError("timed out"))
        return self._arrived.popleft()

    def _receive(self, deadline_s: float) -> bool:
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
        except Exception as error:  # kafka-python's: the bytes are not an answer to the request
            raise self._lost(error) from error
        return True

    def _left_s(self, deadline_s: float) -> float:
        until_s = max(deadline_s, self._granted_until_s)
        return max(0.001, min(self.access.answer_s, until_s - time.monotonic()))

    def _lost(self, error: Exception) -> LostError:
        self.close()
        why = str(error) or type(error).__name__
        is_late = isinstance(error, TimeoutError)
        return LostError(f"{self.address[0]}:{self.address[1]}: {why}", is_sent=bool(self._answers), is_late=is_late)


def answering(connections: Sequence[Connection], timeout_s: float) -> list[Connection]:
    """Wait, and return the connections that have an answer or are lost."""
    found = [each for each in connections if each.fileno() < 0 or each.has_more]
    with selectors.DefaultSelector() as selector:
        for each in connections:
            if each not in found:
                selector.register(each, selectors.EVENT_READ, each)
        return found + [key.data for key, _ in selector.select(0 if found else timeout_s)]
