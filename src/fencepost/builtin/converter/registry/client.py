"""The schema registry: what it knows by id, GUID, subject and version. Over confluent-kafka's client.

That client knows addresses, credentials and TLS. What it remembers has no bounds, so this module keeps the answers
itself. `Request` says what a refusal means: whether to wait, to give up the record, or to give up the task.
"""

import ssl
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from threading import Lock, local
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import UUID
from weakref import WeakValueDictionary

from fencepost.api import FatalError, RecordError, Secret, UnavailableError
from fencepost.api.errors import LaggingError
from fencepost.builtin.converter.registry.settings import RegistrySettings, RegistryToken
from fencepost.builtin.converter.registry.wire import SchemaKey

V = TypeVar("V")


class Cache(Generic[V]):
    """Keeps the `size` values that were used last, each for at most `ttl_s` seconds (None: for good). Thread-safe."""

    def __init__(self, size: int, ttl_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, tuple[float | None, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return a value that is still valid, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry[0] is not None and self._clock() >= entry[0]:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: Hashable, value: V, ttl_s: float | None = None) -> None:
        """Keep a value, for another time than others if `ttl_s` is given."""
        ttl_s = self._ttl_s if ttl_s is None else ttl_s
        with self._lock:
            self._entries[key] = (None if ttl_s is None else self._clock() + ttl_s, value)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def get_or(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value, made by `make` if it is not there. What `make` raises is not kept."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found


T = TypeVar("T")

_WAIT = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST = 600  # characters of an answer in a message


class NotFoundError(RecordError):
    """The registry knows of no such subject, version or schema, or not yet: one of several nodes may lag."""


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
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None or "CERTIFICATE_" in str(error):
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


_REFUSED_FOR_S = 10.0  # a refusal is remembered, so that each record of a batch is not asked for again
_BEHIND_FOR_S = 4.0  # a node of the registry may not know for so long what another one has registered
_ASKED_AGAIN_S = 2.0  # what was waited for in vain is asked for no oftener: not for each record of a batch
_FORGOTTEN_AFTER_S = 600.0  # since the last use; then it may lag with something else of this name
_MOST_IN_VAIN, _WITHIN_S = 2, 60.0  # waits of a task: more would take it out of its group, or stop it for good
_OVER = float("-inf")
_DEEPEST = 100  # references within references
_OF_OAUTH = {f"bearer.auth.{name}" for name in ("issuer.endpoint.url", "client.id", "client.secret", "scope")}


class Reference(NamedTuple):
    """What a schema calls `name` is this version of the subject."""

    name: str
    subject: str
    version: int


class WrittenSchema(NamedTuple):
    """A schema as the registry has it. `type` is AVRO, JSON or PROTOBUF."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()


class Registry:
    """One schema registry. Thread-safe; each answer is asked for once, as long as the cache has room.

    Methods raise what `answer.Request` says. What the registry does not know raises LaggingError at first, and
    RecordError once it was asked again for some seconds.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        *,
        size: int = 1000,
        latest_ttl_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conf, self._urls = _configuration(settings)
        self._client: Any = None
        self._lock = Lock()
        self._answers: Cache[Any] = Cache(size)
        self._latest: Cache[Any] = Cache(size, latest_ttl_s)
        self._refusals: Cache[RecordError] = Cache(size, _REFUSED_FOR_S, clock)
        self._missing = _Missing(size, clock)

    @classmethod
    def shared(cls, settings: RegistrySettings, *, size: int = 1000, latest_ttl_s: float | None = None) -> "Registry":
        """Return the registry of these settings, which all converters of the process with the same settings share."""
        given = [getattr(settings, declared.attribute) for declared in RegistrySettings.settings().values()]
        key = size, latest_ttl_s, *(tuple(value) if isinstance(value, list) else value for value in given)
        with _shared_lock:
            found = _shared.get(key)
            if found is None:
                found = _shared[key] = cls(settings, size=size, latest_ttl_s=latest_ttl_s)
            return found

    def schema(self, key: SchemaKey) -> WrittenSchema:
        """Return the schema with that id or GUID."""

        def ask(client: Any) -> WrittenSchema:
            return _written(client.get_schema_by_guid(str(key.guid)) if key.id is None else client.get_schema(key.id))

        advice = ". The record was written with another registry, or its schema was deleted"
        return self._remembered(("schema", key), f"Fetching the schema with {key}", ask, advice)

    def version(self, subject: str, schema: WrittenSchema) -> int | None:
        """Return the version of the subject that the schema is, or None if it is none."""

        def ask(client: Any) -> int:
            return _number(client.lookup_schema(subject, _unwritten(schema)).version, "version")

        request = Request(self._urls, f"Looking up a schema in subject {subject}")
        try:
            found: int = self._answers.get_or(
                ("version", subject, schema), lambda: request.answer(lambda: ask(self._asked()))
            )
            return found
        except RecordError:  # it has no such subject, or no such schema in it: so it is if the topic has another name
            return None

    def register(self, subject: str, schema: WrittenSchema, *, normalize: bool = False) -> SchemaKey:
        """Return the id of the schema in the subject. It becomes a new version of the subject if it is none yet."""

        def ask(client: Any) -> SchemaKey:
            return _key(client.register_schema_full_response(subject, _unwritten(schema), normalize))

        return self._remembered(
            ("register", subject, schema, normalize), f"Registering the schema of subject {subject}", ask
        )

    def look_up(self, subject: str, schema: WrittenSchema, *, normalize: bool = False) -> SchemaKey:
        """Return the id of a schema that is registered in the subject."""

        def ask(client: Any) -> SchemaKey:
            return _key(client.lookup_schema(subject, _unwritten(schema), normalize))

        advice = (
            ". auto.register.schemas is false: register this schema, or set use.latest.version=true to write with the "
            f"newest one of the subject: {schema.text}"
        )
        what = f"Looking up the schema of subject {subject}"
        return self._remembered(("look up", subject, schema, normalize), what, ask, advice)

    def latest(self, subject: str) -> tuple[SchemaKey, WrittenSchema]:
        """Return the newest version of a subject, as it was at most `latest_ttl_s` ago."""

        def ask(client: Any) -> tuple[SchemaKey, WrittenSchema]:
            registered = client.get_latest_version(subject)
            return _key(registered), _written(registered.schema)

        return self._remembered(("latest", subject), f"Fetching the newest schema of subject {subject}", ask)

    def referenced(self, schema: WrittenSchema) -> dict[str, WrittenSchema]:
        """Return what a schema refers to, by name: directly or not, those first that others refer to."""
        found: dict[str, WrittenSchema] = {}
        for reference, referenced in self._references_of(schema, 0):
            found.setdefault(reference.name, referenced)
        return found

    def _references_of(self, schema: WrittenSchema, depth: int) -> Iterator[tuple[Reference, WrittenSchema]]:
        if depth > _DEEPEST:
            raise RecordError(
                f"The references of a schema form a cycle, or are more than {_DEEPEST} deep: {schema.text}"
            )
        for reference in schema.references:
            _, subject, version = reference
            what = f"Fetching version {version} of subject {subject}, a reference"
            ask = partial(_version, subject=subject, version=version)
            referenced = self._remembered(("reference", subject, version), what, ask)
            yield from self._references_of(referenced, depth + 1)
            yield reference, referenced

    def _remembered(self, key: tuple[Any, ...], what: str, ask: Callable[[Any], T], advice: str = "") -> T:
        refused = self._refusals.get(key) or self._missing.refusals.get(key)
        if refused is not None:
            raise RecordError(str(refused))
        answers: Cache[T] = self._latest if key[0] == "latest" else self._answers
        request = Request(self._urls, what, advice, lambda: self._compatibility(key[1]))
        try:
            return answers.get_or(key, lambda: request.answer(lambda: ask(self._asked())))
        except NotFoundError as error:
            if self._missing.may_come(key):
                raise LaggingError(f"{error} (or it does not know it yet: it is asked again)") from error
            self._missing.refusals.put(key, error)
            raise
        except RecordError as error:
            self._refusals.put(key, error)
            raise

    def _asked(self) -> Any:
        """Return the client, without what it remembers of earlier answers."""
        from confluent_kafka.schema_registry import SchemaRegistryClient

        with self._lock:
            if self._client is None:
                try:
                    self._client = SchemaRegistryClient(self._conf)
                except (OSError, ValueError, TypeError) as error:
                    raise FatalError(
                        f"The client of the schema registry {self._urls} cannot be made: {type(error).__name__}: "
                        f"{error}. Check schema.registry.ssl.* (files in PEM format, on every executor), bearer.auth.*"
                    ) from None
            self._client.clear_caches()
        return self._client

    def _compatibility(self, subject: str) -> str | None:
        """Return the rule of a subject for a message, or None if the registry does not say."""
        for name in (subject, None):
            try:
                return f"the rule is {self._asked().get_compatibility(name)}"
            except Exception:  # the error that it would explain is reported anyhow
                continue
        return None


class _Missing(local):
    """What the registry did not know: how long it is waited for, and when it is asked for again.

    Each thread, that is each task, has its own: what one waits for in vain costs no other one its waits.
    """

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self.refusals: Cache[RecordError] = Cache(size, _ASKED_AGAIN_S, clock)
        self._clock = clock
        self._until_s: Cache[float] = Cache(size, _FORGOTTEN_AFTER_S, clock)
        self._in_vain_s: deque[float] = deque(maxlen=_MOST_IN_VAIN)

    def may_come(self, key: tuple[Any, ...]) -> bool:
        """Say whether the registry may only lag, so that waiting helps."""
        now_s, until_s = self._clock(), self._until_s.get(key)
        if until_s is None:
            if len(self._in_vain_s) == _MOST_IN_VAIN and now_s < self._in_vain_s[0] + _WITHIN_S:
                return False
            until_s = now_s + _BEHIND_FOR_S
        is_over = now_s >= until_s
        if is_over and until_s != _OVER:
            self._in_vain_s.append(now_s)
        self._until_s.put(key, _OVER if is_over else until_s)
        return not is_over


_shared: "WeakValueDictionary[Any, Registry]" = WeakValueDictionary()
_shared_lock = Lock()


def _configuration(settings: RegistrySettings) -> tuple[dict[str, Any], str]:
    urls, user_info = [], settings.user_info
    for url in settings.schema_registry_url:
        bare, inside = _without_credentials(url)
        urls.append(bare)
        if inside is not None and user_info is None and settings.basic_auth_credentials_source == "URL":
            user_info = inside
    connect_s, read_s = settings.http_connect_timeout_ms / 1000, settings.http_read_timeout_ms / 1000
    conf: dict[str, Any] = {
        "url": ",".join(urls),
        "timeout": (connect_s, read_s, read_s, read_s),
        "max.retries": 0,  # the runtime tries again, and a task that is to stop can stop
        "basic.auth.user.info": None if user_info is None else user_info.reveal(),
        "proxy": f"http://{settings.proxy_host}:{settings.proxy_port or 80}" if settings.proxy_host else None,
        "ssl.ca.location": settings.truststore_location,
        "ssl.certificate.location": settings.keystore_location,
        "ssl.key.password": settings.key_password.reveal() if settings.key_password else None,
        **_bearer(settings),
    }
    return {key: value for key, value in conf.items() if value is not None}, ",".join(urls)


def _bearer(settings: RegistrySettings) -> dict[str, str | None]:
    source = settings.bearer_auth_credentials_source
    if source is None:
        return {}
    # The client refuses what belongs to the other source.
    unused = {"bearer.auth.token"} if source != "STATIC_TOKEN" else _OF_OAUTH
    given = {
        key: getattr(settings, one.attribute) for key, one in RegistryToken.settings().items() if key not in unused
    }
    return {key: value.reveal() if isinstance(value, Secret) else value for key, value in given.items()}


def _without_credentials(url: str) -> tuple[str, Secret | None]:
    parts = urlsplit(url)
    inside, at, host = parts.netloc.rpartition("@")
    bare = urlunsplit(parts._replace(netloc=host))
    if not at:
        return bare, None
    user, _, password = inside.partition(":")
    return bare, Secret(f"{unquote(user)}:{unquote(password)}")


def _unwritten(schema: WrittenSchema) -> Any:
    from confluent_kafka.schema_registry import Schema, SchemaReference

    references = [SchemaReference(each.name, each.subject, each.version) for each in schema.references]
    return Schema(schema.text, schema_type=schema.type, references=references)


def _version(client: Any, subject: str, version: int) -> WrittenSchema:
    return _written(client.get_version(subject, version).schema)


def _written(schema: Any) -> WrittenSchema:
    if not isinstance(schema.schema_str, str):
        raise ValueError("it has no schema")
    references = [Reference(each.name, each.subject, each.version) for each in schema.references or ()]
    if not all(isinstance(each.version, int) and isinstance(each.subject, str) for each in references):
        raise ValueError("a reference has no subject or version")
    return WrittenSchema(schema.schema_type or "AVRO", schema.schema_str, tuple(references))


def _key(registered: Any) -> SchemaKey:
    try:
        guid = None if registered.guid is None else UUID(registered.guid)
    except (ValueError, AttributeError, TypeError):
        guid = None
    return SchemaKey(_number(registered.schema_id, "id"), guid)


def _number(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise ValueError(f"its {name} is {value!r}")
    return value
