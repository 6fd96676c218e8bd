"""Request bodies: media type, size, JSON, and the coercions of Kafka Connect's JSON reader.

Kafka Connect answers 500, not 400, to a body that cannot be mapped; clients test for the first words of the
message ("Cannot deserialize value", "Cannot construct instance", "Unrecognized field"). All of it comes before anything
is done (E12).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request

from fencepost.cluster.errors import BadRequestError, NothingToAlterError, OperationError
from fencepost.cluster.info import ConnectorOffset, InitialState
from fencepost.cluster.session_key import ensure_body
from fencepost.config.file import marked_encoding
from fencepost.secret.known import Secrets, hide
from fencepost.secret.redaction import HIDDEN, is_secret_name

_BODY = "fencepost.body"


def keep_body(request: Request, body: bytes) -> None:
    """Keep a body that was read: for forwarding, and for errors that repeat what it says."""
    request.scope[_BODY] = body


def kept_body(request: Request) -> bytes | None:
    """Return the body, if it was read."""
    body: bytes | None = request.scope.get(_BODY)
    return body


BODY_S = 60.0
"""How long a client may take to send a body."""

STRING_MAP = "Map<String,String>"
_INITIAL_OFFSETS = "initial_offsets"

# What Java's String.trim removes.
_TRIMMED = "".join(map(chr, range(33)))


class UnreadableBodyError(OperationError):
    """The body is not JSON, or not of the shape that the request asks for."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    name: str
    config: dict[str, str | None]
    initial_state: InitialState | None
    initial_offsets: list[ConnectorOffset] | None = None


async def read_body(request: Request, media_type: str = "application/json") -> bytes:
    """Return the body.

    Raises HTTPException: 408 if it takes too long, 413 if it is too large, 415 if there is one of another media type.
    """
    if (kept := kept_body(request)) is not None:
        return kept  # whoever verified its signature has read it
    try:
        async with asyncio.timeout(BODY_S):
            body = await _whole(request)
    except TimeoutError:
        raise HTTPException(408) from None
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and stated != media_type:
        raise HTTPException(415)
    keep_body(request, bytes(body))
    return bytes(body)


async def _whole(request: Request) -> bytearray:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > request.app.state.limits.body_bytes:
            raise HTTPException(413)
    return body


async def read_string_map(request: Request, meaning: str) -> dict[str, str | None]:
    """Return a body's JSON object of strings; `meaning` says in the error what the body should have held."""
    return string_map(_present(parse_json(await read_body(request)), meaning))


async def read_create_request(request: Request) -> CreateRequest:
    body = await read_body(request)
    fields = json_object(_present(parse_json(body), '"name" and "config"'), "CreateConnectorRequest")
    refuse_unknown(fields, "CreateConnectorRequest", ("name", "config", "initial_state", _INITIAL_OFFSETS))
    name = _string(fields.get("name"), 'CreateConnectorRequest["name"]')
    config = _present(fields.get("config"), '"config"')
    state = _string(fields.get("initial_state"), 'CreateConnectorRequest["initial_state"]')
    offsets = fields.get(_INITIAL_OFFSETS)
    if offsets is not None:  # numbers count there
        offsets = offsets_of(parse_json(body, numbers_as_text=False)[_INITIAL_OFFSETS])
    return CreateRequest((name or "").strip(_TRIMMED), string_map(config), _initial_state(state), offsets)


def offsets_of(value: object) -> list[ConnectorOffset]:
    """Return a list of partitions and offsets as values; what they may hold is checked where they are stored."""
    if value is None:
        return []
    if not isinstance(value, list):
        refuse_shape(value, "List<ConnectorOffset>")
    return [_offset(item) for item in value]


def _offset(value: object) -> ConnectorOffset:
    fields = json_object(value, "ConnectorOffset")
    refuse_unknown(fields, "ConnectorOffset", ("partition", "offset"))
    return ConnectorOffset(_values(fields.get("partition")), _values(fields.get("offset")))


def _values(value: object) -> dict[str, Any] | None:
    return None if value is None else json_object(value, "LinkedHashMap<String,Object>")


def parse_json(body: bytes, *, numbers_as_text: bool = True) -> Any:
    """Return the value in a body, None if it is empty; with `numbers_as_text` numbers stay the text that was sent."""
    if not body.strip():
        return None
    if (encoding := marked_encoding(body)) is not None:
        raise UnreadableBodyError(f"Cannot deserialize value: the request body is {encoding}; send it as UTF-8")
    integer, real = (str, str) if numbers_as_text else (int, float)
    try:
        value = json.loads(body.decode(), parse_int=integer, parse_float=real, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no character
    except (ValueError, RecursionError) as error:
        text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableBodyError(f"Cannot deserialize value: the request body is not valid JSON ({text})") from None
    return value


def string_map(value: object, path: str = STRING_MAP) -> dict[str, str | None]:
    """Return a config: booleans become text, as numbers did; null stays (validation refuses it with the key's name)."""
    return {key: _string(item, f'{path}["{key}"]') for key, item in json_object(value, path).items()}


def string_maps(value: object) -> list[dict[str, str | None]]:
    if not isinstance(value, list):
        refuse_shape(value, f"List<{STRING_MAP}>")
    return [string_map(item) for item in value]


def _initial_state(text: str | None) -> InitialState | None:
    if text is None:
        return None
    try:
        return InitialState(text.upper())
    except ValueError:
        raise UnreadableBodyError(
            f"Cannot construct instance of `InitialState`, problem: no initial state '{text}'; "
            "give RUNNING, PAUSED or STOPPED"
        ) from None


def _present(value: Any, meaning: str) -> Any:
    if value is None:
        raise BadRequestError(f"The request body lacks {meaning}; send it as JSON.")
    return value


def json_object(value: object, wanted: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse_shape(value, wanted)
    return value


def refuse_unknown(fields: dict[str, Any], kind: str, known: tuple[str, ...]) -> None:
    for key in fields:
        if key not in known:
            names = ", ".join(f'"{name}"' for name in known)
            raise UnreadableBodyError(
                f'Unrecognized field "{key}" (class {kind}), not marked as ignorable '
                f"({len(known)} known properties: {names})"
            )


def _string(value: object, path: str) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is not None and not isinstance(value, str):
        refuse_shape(value, "String", f" (through reference chain: {path})")
    return value


def refuse_shape(value: object, wanted: str, where: str = "") -> NoReturn:
    if isinstance(value, str) and not wanted.startswith(("String", "List<")):
        raise UnreadableBodyError(
            f"Cannot construct instance of `{wanted}`: a JSON object or array is expected, "
            f"but the body holds a string or a number{where}"
        )
    kind, token = _KINDS.get(type(value), ("Null", "VALUE_NULL"))
    raise UnreadableBodyError(
        f"Cannot deserialize value of type `{wanted}` from {kind} value (token `JsonToken.{token}`){where}"
    )


_KINDS: dict[type, tuple[str, str]] = {
    dict: ("Object", "START_OBJECT"),
    list: ("Array", "START_ARRAY"),
    bool: ("Boolean", "VALUE_BOOLEAN"),
    str: ("String", "VALUE_STRING"),
    int: ("Integer", "VALUE_NUMBER_INT"),
    float: ("Floating-point", "VALUE_NUMBER_FLOAT"),
}


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def offsets_body(offsets: Sequence[ConnectorOffset]) -> dict[str, object]:
    return {"offsets": [{"partition": one.partition, "offset": one.offset} for one in offsets]}


async def read_offsets(request: Request) -> list[ConnectorOffset]:
    """Return the offsets to be altered. NothingToAlterError if there are none."""
    value = parse_json(await read_body(request), numbers_as_text=False)
    if value is None:
        raise NothingToAlterError
    fields = json_object(value, "ConnectorOffsets")
    refuse_unknown(fields, "ConnectorOffsets", ("offsets",))
    offsets = offsets_of(fields.get("offsets"))
    if not offsets:
        raise NothingToAlterError
    return offsets


MOST_UNVERIFIED = 8
_UNVERIFIED = "unverified_bodies"

Verify = Callable[[bytes | None], Awaitable[bool]]


async def read_signed_body(request: Request, verify: Verify) -> bytes:
    """Return the body once its signature is verified. Raises as `verify` and `read_body` do.

    Anybody can send such a request, and its body may be large. The signature of a current worker is verified by the
    head alone. That of an older worker, or of Kafka Connect, needs the body: few of those are read at the same time.
    """
    if await verify(None):
        body = await read_body(request)
        ensure_body(request.headers, body)
        return body
    async with _places(request):
        body = await read_body(request)
        await verify(body)
    return body


def _places(request: Request) -> asyncio.Semaphore:
    """Return the places for bodies that are not verified yet, which an application has once."""
    state = request.app.state
    if not hasattr(state, _UNVERIFIED):
        setattr(state, _UNVERIFIED, asyncio.Semaphore(MOST_UNVERIFIED))
    places: asyncio.Semaphore = getattr(state, _UNVERIFIED)
    return places


def without_secrets(message: str, request: Request) -> str:
    """Return an error about a request without secrets, except what the request said.

    If that were hidden only when it is a secret elsewhere, callers could guess the passwords of others (E11). A value
    whose key is that of a secret is never shown.
    """
    own, shown = Secrets(), [request.scope["path"], unquote(request.scope["path"]), unquote(request.url.query)]
    for key, text in _sent(kept_body(request) or b""):
        if is_secret_name(key) and text != HIDDEN:
            own.remember(text)
        else:
            shown += (key, text)
    return hide(own.hide(message), unless_in="\n".join(shown))


def _sent(body: bytes) -> Iterator[tuple[str, str]]:
    text = body.decode(errors="replace")
    try:
        yield from _texts("", json.loads(text, parse_int=str, parse_float=str))
    except (ValueError, RecursionError):
        yield "", text
        yield from parse_qsl(text)


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield key, name
            yield from _texts(name, each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(key, each)
    elif isinstance(value, str):
        yield key, value
