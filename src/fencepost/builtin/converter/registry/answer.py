"""What the registry's refusals mean: whether to wait, to give up the record, or to give up the task."""

import ssl
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fencepost.api import FatalError, RecordError, UnavailableError

T = TypeVar("T")

_WAIT = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST = 600  # characters of an answer in a message


class NotFoundError(RecordError):
    """The registry knows of no such subject, version or schema, or not yet: one of several nodes may be behind."""


class Request:
    """One request to the registry: `what` it is for, such as "registering the schema of orders-value".

    Raises UnavailableError if the registry cannot be reached or is overloaded; RecordError if it knows of no such
    schema or refuses it; FatalError if it refuses us, or if its answer is none of a schema registry. No record is to
    blame for the first and the last.
    """

    def __init__(self, urls: str, what: str, advice: str = "", compatibility: Callable[[], str | None] = lambda: None):
        self._urls = urls
        self._what = what
        self._advice = advice
        self._compatibility = compatibility

    def answer(self, ask: Callable[[], T]) -> T:
        """Return the answer to `ask`, which raises ValueError for an answer that is none of a schema registry."""
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
        from httpx2 import HTTPError, InvalidURL

        try:
            return ask()
        except SchemaRegistryError as error:
            raise self._refused(error) from error
        except (HTTPError, OSError, OAuthTokenError) as error:
            raise self._unreachable(error) from error
        except (RecordError, FatalError, UnavailableError):
            raise
        except (InvalidURL, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise self._rubbish(f"{type(error).__name__}: {error}") from error

    def _rubbish(self, found: str) -> FatalError:
        return FatalError(
            f"{self._began} failed: the answer is not one of a schema registry ({found[:_LONGEST]}). Check "
            "schema.registry.url, including its path, and proxies on the way"
        )

    @property
    def _began(self) -> str:
        return f"{self._what} (schema registry {self._urls})"

    def _unreachable(self, error: Exception) -> Exception:
        is_untrusted = any(isinstance(each, ssl.SSLCertVerificationError) for each in _causes(error))
        if is_untrusted or "CERTIFICATE_" in str(error):
            return FatalError(
                f"{self._began} failed: the registry's certificate is not trusted ({error}). Set "
                "schema.registry.ssl.truststore.location to a PEM file with the authority that signed it"
            )
        text = f"{type(error).__name__}: {error}"[:_LONGEST]
        return UnavailableError(f"{self._began} failed: the registry cannot be reached: {text}")

    def _refused(self, error: Any) -> Exception:
        status, code = error.http_status_code, error.error_code or 0
        says = f"the registry says: {str(error.error_message)[:_LONGEST]!r} (HTTP {status}, code {code})"
        if status in _WAIT:
            return UnavailableError(f"{self._began} failed: {says}")
        if status in (401, 403):
            return FatalError(
                f"{self._began} failed, {says}. It refuses our credentials: check basic.auth.credentials.source and "
                "basic.auth.user.info, or bearer.auth.*, and what this user may do"
            )
        if status == 409:
            level = self._compatibility()
            return RecordError(
                f"{self._began} failed: the schema is not compatible with an earlier version of the subject"
                f"{f' ({level})' if level else ''}. Make it compatible (a new field needs a default or must be "
                "optional), write to another topic, or change the compatibility of the subject in the registry; "
                f"{says}"
            )
        if status == 422:
            return RecordError(f"{self._began} failed; {says}")
        if code // 100 == 404:
            return NotFoundError(f"{self._began} failed; {says}{self._advice}")
        return self._rubbish(f"HTTP {status}, {str(error.error_message)[:_LONGEST]!r}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
