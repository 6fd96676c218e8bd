"""`Config` and `setting`: a key is written down once, as a field of one class.

A setting's Kafka type and the Python value of its field come from its annotation; `type=` overrides the type. Parsing
rules and error texts are those of Kafka's ConfigDef.
"""

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, ClassVar, Self, Union

from fencepost.config.check import Check, ConfigError
from fencepost.secret.redaction import HIDDEN


class Type(Enum):
    """The types of Kafka's ConfigDef, by the names that REST answers use. INT has 32 bits, LONG 64.

    >>> from fencepost.api import Config, Type, setting
    >>> class FeedConfig(Config):
    ...     size: int = setting("batch.size", type=Type.INT, default=100)
    """

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Secret:
    """A value that is never printed: `str` and `repr` are masked, `reveal()` is not (E11).

    >>> from fencepost.api import Config, Secret, setting
    >>> class FeedConfig(Config):
    ...     password: Secret = setting("feed.password")
    >>> config = FeedConfig({"feed.password": "s3cret"})
    >>> config.password
    [hidden]
    >>> config.password.reveal()
    's3cret'
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True)
class Shape:
    """Kafka's type, the type of a list's items, and the function that makes a Path or an Enum of the text (None: it
    stays text).

    `make` raises ValueError with a reason that completes "Invalid value V for configuration K: <reason>". `valid`
    describes the valid texts if not all are.
    """

    kind: Type
    item: Type = Type.STRING
    make: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()

    def made(self, value: Any) -> Any:
        """Return the field's value for a text or list. Raises ValueError with the reason."""
        if self.make is None or value is None:
            return value
        return [self.make(item) for item in value] if isinstance(value, list) else self.make(value)


_PLAIN = {
    str: Type.STRING,
    int: Type.LONG,  # Python's int has no 32-bit limit, so authors do not expect one
    float: Type.DOUBLE,
    bool: Type.BOOLEAN,
    Secret: Type.PASSWORD,
}
SUPPORTED = "str, int, float, bool, Secret, pathlib.Path, an Enum, or a list of these, each perhaps with | None"


def shape_of(hint: Any) -> Shape:
    """Return the meaning of an annotation. Raises TypeError for one that no setting can have."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(members) == 1:
            return shape_of(members[0])
    if hint is list:
        return Shape(Type.LIST)
    if typing.get_origin(hint) is list:
        item = shape_of(typing.get_args(hint)[0])
        if item.kind not in (Type.LIST, Type.PASSWORD):
            return Shape(Type.LIST, item.kind, item.make, item.choices)
    if hint in _PLAIN:
        return Shape(_PLAIN[hint])
    if hint is Path:
        return Shape(Type.STRING, make=_path)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _of_enum(hint)
    raise TypeError(f"{getattr(hint, '__name__', hint)} is not a type of settings; use {SUPPORTED}")


def _path(text: str) -> Path:
    if not text:
        raise ValueError("must not be empty: it is the path of a file or directory")
    return Path(text)


def _of_enum(members: type[Enum]) -> Shape:
    by_text = {str(member.value): member for member in members}
    by_lower = {text.lower(): member for text, member in by_text.items()}
    choices = tuple(by_text)

    def make(text: str) -> Enum:
        member = by_text.get(text) or by_lower.get(text.lower())
        if member is None:
            raise ValueError(f"String must be one of: {', '.join(choices)}")
        return member

    return Shape(Type.STRING, make=make, choices=choices)


class Importance(Enum):
    """How much a user should care.

    >>> from fencepost.api import HIGH, Config, setting
    >>> class FeedConfig(Config):
    ...     url: str = setting("feed.url", doc="The feed.", importance=HIGH)
    """

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """A hint for user interfaces."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_RANKS = {HIGH: 0, MEDIUM: 1, LOW: 2}


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()

_RANGES = {Type.SHORT: 1 << 15, Type.INT: 1 << 31, Type.LONG: 1 << 63}


@dataclass
class Setting:
    """One key: its type, default, check and documentation. As a class attribute it yields the parsed value.

    `check` gets text, numbers or a list of these. If the annotation is a Path or an Enum, it gets the text.
    """

    key: str
    default: Any = REQUIRED
    check: Check | None = None
    doc: str = ""
    importance: Importance = MEDIUM
    declared_type: Type | None = None
    group: str | None = None
    width: Width = Width.NONE
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    order: int = -1
    without_effect: str | None = None
    attribute: str = field(default="", repr=False)
    shape: Shape = field(default=Shape(Type.STRING), repr=False)

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else instance._values[self.key]

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(f"setting {self.key} is read-only")

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def kind(self) -> Type:
        return self.declared_type or self.shape.kind

    @property
    def recommended(self) -> tuple[str, ...]:
        """Return the valid values, if there is a complete list of them."""
        return (self.check.recommended if self.check else ()) or self.shape.choices

    def annotated(self, owner: type, hint: Any) -> None:
        """Use the field's annotation. Raises TypeError if no setting can have it, unless `type=` was given."""
        try:
            self.shape = shape_of(hint)
        except TypeError as error:
            if self.declared_type is None:
                raise TypeError(f"{owner.__qualname__}.{self.attribute}: {error}") from None

    def parse(self, raw: object) -> Any:
        """Return the typed value of `raw` (text, or already typed). Raises ConfigError."""
        value = self._plain(raw)
        if value is not None and self.check is not None:
            reason = self.check(value.reveal() if isinstance(value, Secret) else value)
            if reason is not None:
                raise ConfigError(f"Invalid value {_shown(value)} for configuration {self.key}: {reason}")
        return self._made(value)

    @property
    def default_value(self) -> Any:
        """Return the typed default, unchecked."""
        return self._made(self._plain(self.default))

    def _plain(self, raw: object) -> Any:
        value = _convert(self.key, self.kind, raw)
        if self.kind is Type.LIST and value is not None:
            return [_convert(self.key, self.shape.item, item) for item in value]
        return value

    def _made(self, value: Any) -> Any:
        try:
            return self.shape.made(value)
        except ValueError as error:
            shown = rendered(value, self.kind)
            raise ConfigError(f"Invalid value {shown} for configuration {self.key}: {error}") from None


def setting(
    key: str,
    *,
    default: Any = REQUIRED,
    check: Check | None = None,
    doc: str = "",
    importance: Importance = MEDIUM,
    type: Type | None = None,
    group: str | None = None,
    width: Width = Width.NONE,
    display_name: str | None = None,
    dependents: tuple[str, ...] = (),
    order: int = -1,
    without_effect: str | None = None,
) -> Any:
    """Declare a setting as a class field: `url: str = setting("price.url", doc="The feed.")`.

    `without_effect` marks keys that are accepted only because existing files have them. It says why they have no
    effect, and a worker whose file has such a key logs that when it starts.

    >>> from fencepost.api import Config, at_least, setting
    >>> class FeedConfig(Config):
    ...     url: str = setting("feed.url", doc="The feed.")
    ...     size: int = setting("batch.size", default=100, check=at_least(1), doc="The most records of a batch.")
    >>> FeedConfig({"feed.url": "http://feed", "batch.size": "7"}).size
    7
    """
    return Setting(
        key, default, check, doc, importance, type, group, width, display_name, dependents, order, without_effect
    )


@dataclass(frozen=True)
class SettingValue:
    """The result of validating one key: the given text (or the default), and the faults.

    `recommended` are values to choose from, if they depend on more than the setting's check. A key that has no meaning
    beside the other values may be made invisible.

    >>> from fencepost.api import SourceConnector, at_least, setting
    >>> class FeedConnector(SourceConnector):
    ...     size: int = setting("batch.size", check=at_least(1))
    >>> FeedConnector.validate({"batch.size": "0"})[0].errors
    ('Invalid value 0 for configuration batch.size: Value must be at least 1',)
    """

    setting: Setting
    value: str | None
    errors: tuple[str, ...] = ()
    recommended: tuple[str, ...] | None = None
    is_visible: bool = True


class Config:
    """Base class of settings. The constructor parses all of them and reports all faults at once.

    >>> from fencepost.api import Config, setting
    >>> class FeedConfig(Config):
    ...     url: str = setting("feed.url")
    ...     retries: int = setting("retries", default=3)
    >>> config = FeedConfig({"feed.url": "http://feed"})
    >>> (config.url, config.retries)
    ('http://feed', 3)
    """

    _settings: ClassVar[dict[str, Setting]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        collected: dict[str, Setting] = {}
        for base in reversed(cls.__mro__[1:]):
            collected.update(getattr(base, "_settings", {}))
        hints = typing.get_type_hints(cls) if any(isinstance(v, Setting) for v in vars(cls).values()) else {}
        for name, value in vars(cls).items():
            if isinstance(value, Setting):
                value.annotated(cls, hints.get(name, str))
                collected[value.key] = value
        cls._settings = collected

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        """Parse `properties`. Unknown keys are only kept in `originals`. Raises ConfigError."""
        self.originals: dict[str, object] = dict(properties or {})
        self._values: dict[str, Any] = {}
        faults: list[str] = []
        for key, declared in self._settings.items():
            try:
                self._values[key] = _value_of(declared, self.originals)
            except ConfigError as error:
                faults.extend(error.messages)
        faults = faults or self.check_together()
        if faults:
            raise ConfigError(faults)  # E12

    @classmethod
    def unchecked(cls, properties: Mapping[str, object]) -> Self:
        """Return settings that are right by themselves, whatever `check_together` says of them. Raises ConfigError."""
        made = cls.__new__(cls)
        made.originals = dict(properties)
        made._values = {key: _value_of(declared, properties) for key, declared in cls._settings.items()}
        return made

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return key -> setting, in order of declaration, base classes first."""
        return cls._settings

    @classmethod
    def key_of(cls, attribute: str) -> str:
        """Return the key of a field: `WorkerConfig.key_of("group_id")` is `group.id`."""
        return typing.cast("Setting", getattr(cls, attribute)).key

    @classmethod
    def validate_values(cls, properties: Mapping[str, object]) -> list[SettingValue]:
        """Check `properties` without raising. Returns one result for each declared key (REST `validate`)."""
        return validate_settings(cls._settings.values(), properties)

    def check_together(self) -> list[str]:
        """Override this to check settings against one another. Return a text for each fault, which names its key."""
        return []

    def with_prefix(self, prefix: str) -> dict[str, object]:
        """Return the originals whose key starts with `prefix`, without it."""
        return {k[len(prefix) :]: v for k, v in self.originals.items() if k.startswith(prefix)}


def validate_settings(settings: Iterable[Setting], properties: Mapping[str, object]) -> list[SettingValue]:
    """Check `properties` against the settings without raising. Returns one result for each setting, in order."""
    answers = []
    for declared in settings:
        errors: tuple[str, ...] = ()
        try:
            _value_of(declared, properties)
        except ConfigError as error:
            errors = error.messages
        answers.append(SettingValue(declared, _rendered_value(declared, properties), errors))
    return answers


def _rendered_value(declared: Setting, properties: Mapping[str, object]) -> str | None:
    given = properties.get(declared.key, None if declared.is_required else declared.default)
    try:
        return rendered(declared._plain(given), declared.kind)
    except ConfigError:
        return None


def embedded(settings: Iterable[Setting], prefix: str, group: str, *, first_order: int = 0) -> list[Setting]:
    """Return the settings as part of a larger set: their keys get the prefix, and they form one group.

    As in Kafka's ConfigDef, they are ordered by their class's groups and orders, then required ones first, and then by
    importance and name.
    """
    declared = list(settings)
    groups = list(dict.fromkeys(one.group for one in declared))
    declared.sort(key=lambda s: (groups.index(s.group), s.order, not s.is_required, _RANKS[s.importance], s.key))
    return [
        replace(
            one,
            key=prefix + one.key,
            group=group if one.group is None else f"{group}: {one.group}",
            order=first_order + position,
            display_name=one.display_name or one.key,
            dependents=tuple(prefix + key for key in one.dependents),
        )
        for position, one in enumerate(declared)
    ]


def rendered(value: object, kind: Type) -> str | None:
    """Return a value as in REST answers: as text, with lists joined by commas and secrets hidden."""
    if value is None:
        return None
    if kind is Type.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(rendered(item, Type.STRING) or "" for item in value)
    return str(value.value if isinstance(value, Enum) else value)


def as_text(key: str, value: object) -> str | None:
    """Return a value as in a stored config: the text from which it can be parsed again. Secrets are not hidden.

    Raises ConfigError for values without a text form: maps, bytes, objects.
    """
    if isinstance(value, Secret):
        return value.reveal()
    items = value if isinstance(value, list | tuple) else [value]
    if not all(item is None or isinstance(item, str | bool | int | float | Enum | PurePath) for item in items):
        raise ConfigError(
            f"Invalid value for configuration {key}: a {type(value).__name__} has no text to be stored as; give text, "
            "a number, a boolean or a list of these (json.dumps makes text of anything else)"
        )
    return rendered(value, Type.STRING)


def _value_of(declared: Setting, properties: Mapping[str, object]) -> Any:
    if declared.key not in properties:
        if declared.is_required:
            raise ConfigError(f'Missing required configuration "{declared.key}" which has no default value.')
        return declared.default_value
    raw = properties[declared.key]
    if raw is None and declared.is_required:
        raise ConfigError(f"Invalid value null for configuration {declared.key}: must not be null")
    return declared.parse(raw)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return value if isinstance(value, str) else repr(value)


def _convert(key: str, kind: Type, raw: object) -> Any:
    if raw is None:
        return None
    if isinstance(raw, str):
        return _from_text(key, kind, raw if kind is Type.PASSWORD else raw.strip())
    if kind is Type.LIST and isinstance(raw, list | tuple):
        return list(raw)
    if kind in (Type.STRING, Type.CLASS):
        return rendered(raw, kind)
    if kind is Type.PASSWORD:
        return raw if isinstance(raw, Secret) else Secret(str(raw))
    return _from_text(key, kind, rendered(raw, kind) or "")


def _from_text(key: str, kind: Type, text: str) -> Any:
    if kind in (Type.STRING, Type.CLASS):
        return text
    if kind is Type.PASSWORD:
        return Secret(text)
    if kind is Type.LIST:
        return [part.strip() for part in text.split(",")] if text else []
    if kind is Type.BOOLEAN:
        return _boolean(key, text)
    return _number(key, kind, text)


def _boolean(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"Invalid value {text} for configuration {key}: Expected value to be either true or false")
    return text.lower() == "true"


def _number(key: str, kind: Type, text: str) -> int | float:
    try:
        number = float(text) if kind is Type.DOUBLE else int(text)
    except ValueError:
        number = None
    limit = _RANGES.get(kind)
    if number is None or (limit is not None and not -limit <= number < limit):
        raise ConfigError(f"Invalid value {text} for configuration {key}: Not a number of type {kind.value}")
    return number
