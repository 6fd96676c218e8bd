"""The config providers that a worker's file declares, and the look-up of a config's references.

A key `config.providers` names them; `config.providers.NAME.class` and `config.providers.NAME.param.*` configure each.

Puts references back into configs that were made of looked-up values, before they are stored (E11).
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fencepost.api import ConfigData, ConfigError, ConfigProvider, RetriableError
from fencepost.config import Type
from fencepost.config.reference import RawConfig, Reference, has_references, names_in, references, replaced
from fencepost.config.worker import WorkerConfig, nearest
from fencepost.plugin import PluginKind, find, use_plugin_path
from fencepost.reference.limited import AGAIN_S, HangingError, LimitedCalls
from fencepost.secret.known import SHORTEST, Secrets, hide, hold, remember
from fencepost.secret.redaction import is_secret_name


def restored(config: RawConfig, stored: RawConfig, values: RawConfig, found: Mapping[str, str]) -> RawConfig:
    """Return a task's config in which looked-up values are references again.

    A key with the value that it has in the connector's config gets the text of that config, as in Kafka Connect; white
    space around the value does not count. In all other values, the looked-up texts are replaced.

    Args:
        config: the task's config, as its connector made it.
        stored: the connector's config with references.
        values: the same config with values.
        found: the value of each reference.

    Raises:
        ConfigError: a value has a looked-up text in another form, for which there is no reference.
    """
    texts = sorted(found.items(), key=lambda each: -len(each[1]))
    made = {key: _restored_value(key, value, stored, values, texts) for key, value in config.items()}
    _ensure_without_secrets({key: value for key, value in made.items() if value != stored.get(key)}, found)
    return made


def _restored_value(
    key: str, value: str | None, stored: RawConfig, values: RawConfig, texts: list[tuple[str, str]]
) -> str | None:
    if key in stored and value == stored[key]:
        return value  # a user wrote it; that a reference has the same value now says nothing
    return stored[key] if _is_same(key, value, stored, values) else _with_references(value, texts)


def _is_same(key: str, value: str | None, stored: RawConfig, values: RawConfig) -> bool:
    """Say whether it is the connector's value. Typed settings lose the white space at their ends."""
    known = values.get(key)
    is_equal = value == known or (value is not None and known is not None and value.strip() == known.strip())
    return key in stored and is_equal and has_references({key: stored[key]})


def _ensure_without_secrets(config: RawConfig, found: Mapping[str, str]) -> None:
    """Refuse what is left of looked-up values: trimmed, or quoted as in URLs."""
    secrets = Secrets()
    secrets.hold(found.values())
    for key, value in config.items():
        rest = replaced(key, value or "", dict.fromkeys(found, "\0"))
        if secrets.hide(rest) != rest:
            raise ConfigError(
                f"{key} of a task's config has a part or another form of a value that was looked up, and it would be "
                "stored readable. Store the value without white space at its ends; let task_configs() return it as "
                "it is, and change it in the task"
            )


def _with_references(value: str | None, texts: list[tuple[str, str]]) -> str | None:
    """Replace the longest looked-up texts first; short ones are replaced only as the value of their own key."""
    if value is None:
        return None
    pieces = [value]
    for reference, secret in texts:
        if len(secret) >= SHORTEST:
            pieces = [part for piece in pieces for part in _cut(piece, secret, reference)]
    return "".join(pieces)


def _cut(piece: str, secret: str, reference: str) -> list[str]:
    """Return a piece of text with the reference in place of the secret; pieces that are references stay whole."""
    if piece.startswith("${") and has_references({"": piece}):
        return [piece]
    parts = piece.split(secret)
    return [each for part in parts for each in (reference, part)][1:]


_PROVIDERS = WorkerConfig.key_of("config_providers")
_OF_CONNECTORS = ".param.allowlist.pattern"
"""How the setting ends that limits the variables of configs, and not those of the worker's own file."""
_LONGEST_S = 60.0  # of one call; what looks values up tries again itself


@dataclass(frozen=True)
class LookedUp:
    """A config after the look-up.

    Attributes:
        values: the config with the references replaced that could be looked up.
        found: the value of each of them, by the reference's text.
        faults: a text for each key with a reference that could not be looked up.
        away: the error of a store that did not answer, if there is one; its references are among the faults.
        ttl_ms: how long all values are valid; None if they do not expire.
    """

    values: Mapping[str, Any] = field(repr=False)
    found: Mapping[str, str] = field(repr=False)
    faults: Mapping[str, str]
    away: RetriableError | None = None
    ttl_ms: int | None = None

    def require(self) -> dict[str, Any]:
        """Return the values. Raises RetriableError if a store is away, and else ConfigError with all faults."""
        if self.away is not None:
            raise RetriableError("\n".join(self.faults.values())) from self.away
        if self.faults:
            raise ConfigError(list(self.faults.values()))
        return dict(self.values)

    def keep_hidden(self) -> Callable[[], None]:
        """Hide the values until the returned function is called: as long as they are used (E11)."""
        return hold(self.found.values())

    def require_now(self) -> dict[str, Any]:
        """Return the values. Raises ConfigError, also if a store is away."""
        try:
            return self.require()
        except RetriableError as error:
            raise ConfigError(str(error)) from None


@dataclass(frozen=True)
class _Recent:
    """A value, when it was looked up, and for how long it was valid then; None if it does not expire."""

    value: str = field(repr=False)
    at_s: float
    ttl_ms: int | None


@dataclass
class _Answers:
    """The values and faults so far, by the texts of references."""

    found: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    away: RetriableError | None = None
    ttls_ms: list[int] = field(default_factory=list)

    def take_again(self, text: str, recent: _Recent, max_age_s: float) -> None:
        """Take a value that was looked up before, unless it is too old or has expired."""
        age_s = time.monotonic() - recent.at_s
        left_ms = None if recent.ttl_ms is None else recent.ttl_ms - int(age_s * 1000)
        if age_s >= max_age_s or (left_ms is not None and left_ms <= 0):
            return
        self.found[text] = recent.value
        if left_ms is not None:
            self.ttls_ms.append(left_ms)


class Providers:
    """The declared providers, each created when it is first needed. Thread-safe."""

    def __init__(
        self,
        settings: Mapping[str, str],
        find_plugin: Callable[[str, str], type[Any]] = find,
        longest_s: float = _LONGEST_S,
        again_s: float = AGAIN_S,
    ) -> None:
        """`settings`: the properties of a worker's file, or only those of providers.

        `longest_s` limits each call; one that hangs is made once more after `again_s`.
        """
        self.settings = {k: str(v) for k, v in settings.items() if is_of_providers(k)}
        self.names = tuple(names_in(self.settings.get(_PROVIDERS)))
        self._find = find_plugin
        self._calls = LimitedCalls(longest_s, again_s)
        self._creation_s = longest_s / 2
        self._locks = {name: threading.Lock() for name in self.names}  # while a provider is created
        self._made: dict[str, ConfigProvider] = {}
        self._recent: dict[str, _Recent] = {}  # by the texts of references

    @property
    def of_worker(self) -> "Providers":
        """Return the providers for the worker's own file, whose author may have any variable of the worker."""
        own = {key: value for key, value in self.settings.items() if not key.endswith(_OF_CONNECTORS)}
        return self if own == self.settings else providers_of(own)

    def look_up(self, config: Mapping[str, Any], max_age_s: float = 0.0) -> LookedUp:
        """Look up every reference of a config; settings of providers are left as they are. Values are remembered as
        secrets. Never raises.

        Values that were looked up less than `max_age_s` ago, and have not expired, are used again.
        """
        return self._look_up(config, self.names, max_age_s)

    def _look_up(self, config: Mapping[str, Any], names: Sequence[str], max_age_s: float = 0.0) -> LookedUp:
        asked = {key: list(references(key, value)) for key, value in config.items() if not is_of_providers(key)}
        every = [one for each in asked.values() for one in each]
        answers = _Answers()
        for one in every:
            if (recent := self._recent.get(one.text)) is not None:
                answers.take_again(one.text, recent, max_age_s)
        for (name, path), wanted in _by_path(one for one in every if one.text not in answers.found).items():
            if name in names:
                self._ask(name, path, wanted, answers)
        faults = {}
        for key, refers_to in asked.items():
            texts = [_fault(key, str(config[key]), one, names, answers) for one in refers_to]
            if any(texts):
                faults[key] = "; ".join(dict.fromkeys(filter(None, texts)))
        values = {
            key: replaced(key, value, answers.found) if asked.get(key) else value for key, value in config.items()
        }
        return LookedUp(values, answers.found, faults, answers.away, min(answers.ttls_ms, default=None))

    def check(self) -> None:
        """Create every provider, which asks for no value. Raises ConfigError with all faults."""
        faults: list[str] = []
        for name in self.names:
            try:
                self._provider(name)
            except ConfigError as error:
                faults.extend(error.messages)
            except RetriableError as error:
                faults.append(str(error))
        if faults:
            raise ConfigError(faults)

    def _ask(self, name: str, path: str, wanted: list[Reference], answers: _Answers) -> None:
        texts = [one.text for one in wanted]
        keys = frozenset(one.key for one in wanted)
        try:
            data = _checked(self._calls.call((name, path, keys), lambda: self._provider(name).get(path, keys)))
        except HangingError as error:
            answers.away = RetriableError(f"{name}: {error}")
            answers.faults |= dict.fromkeys(texts, f"cannot be looked up now: the provider hangs: {error}")
        except RetriableError as error:
            answers.away = error
            answers.faults |= dict.fromkeys(texts, f"cannot be looked up now: {hide(str(error))}")
        except ConfigError as error:
            answers.faults |= dict.fromkeys(texts, f"cannot be looked up: {hide(str(error))}")
        except BaseException as error:
            why = f"cannot be looked up: {type(error).__name__}: {hide(str(error))}"
            answers.faults |= dict.fromkeys(texts, why)
        else:
            if data.ttl_ms is not None:
                answers.ttls_ms.append(data.ttl_ms)
            for one in wanted:
                self._take(one, data.values.get(one.key), data.ttl_ms, answers)

    def _take(self, one: Reference, value: object, ttl_ms: int | None, answers: _Answers) -> None:
        if value is None:
            where = one.path or f"the provider {one.provider}"
            answers.faults[one.text] = f"cannot be looked up: there is no {one.key} in {where}: add it"
        elif not isinstance(value, str):
            remember(str(value))
            answers.faults[one.text] = (
                f"cannot be used: the provider's value is of type {type(value).__name__}: let it return text"
            )
        elif has_references({"": value}):
            remember(value)
            answers.faults[one.text] = (
                "cannot be used: its value has the form of a reference, ${…:…}, and references are looked up once: "
                "change the value"
            )
        else:
            remember(value)
            answers.found[one.text] = value
            self._recent[one.text] = _Recent(value, time.monotonic(), ttl_ms)

    def _provider(self, name: str) -> ConfigProvider:
        if name in self._made:
            return self._made[name]
        lock = self._locks[name]
        if not lock.acquire(timeout=self._creation_s):  # what creates it may hang for ever
            lock = self._locks[name] = threading.Lock()
            lock.acquire()
        try:
            if name not in self._made:
                self._made[name] = self._create(name)
            return self._made[name]
        finally:
            lock.release()

    def _create(self, name: str) -> ConfigProvider:
        key = f"{_PROVIDERS}.{name}.class"
        given = self.settings.get(key, "").strip()
        if not given:
            raise ConfigError(f'Missing required configuration "{key}": name the class of the provider')
        try:
            cls = self._find(PluginKind.CONFIG_PROVIDER, given)
        except ConfigError as error:
            raise ConfigError(f"Invalid value {given} for configuration {key}: {error}") from None
        prefix = f"{_PROVIDERS}.{name}.param."
        own = {k.removeprefix(prefix): value for k, value in self.settings.items() if k.startswith(prefix)}
        _ensure_known(prefix, own, cls)
        known = self.of_worker._look_up(own, self.names[: self.names.index(name)])
        known.keep_hidden()
        hold(value for key, value in own.items() if _is_password(cls, key) and not has_references({key: value}))
        try:
            made: ConfigProvider = cls(known.require())
        except ConfigError as error:
            raise ConfigError([f"{prefix}*: {message}" for message in error.messages]) from None
        return made


def _checked(data: object) -> ConfigData:
    """Return a provider's answer. Raises ConfigError if it is none; its text shows no value."""
    if not isinstance(data, ConfigData) or not isinstance(data.values, Mapping):
        raise ConfigError("the provider's answer is no ConfigData with a mapping: correct its get()")
    if data.ttl_ms is not None and (not isinstance(data.ttl_ms, int) or isinstance(data.ttl_ms, bool)):
        raise ConfigError(f"the provider's ttl_ms is {data.ttl_ms!r}, and no whole number: correct its get()")
    return data


def _fault(key: str, value: str, one: Reference, names: Sequence[str], answers: _Answers) -> str:
    if one.provider not in names:
        return (
            f"{key}: {one.shown_in(value)} refers to {one.provider}, which {_PROVIDERS} does not name: add it there, "
            "in the worker's file"
        )
    fault = answers.faults.get(one.text)
    return f"{key}: {one.text} {fault}" if fault else ""


def _ensure_known(prefix: str, given: Iterable[str], cls: type[ConfigProvider]) -> None:
    """Refuse misspelt settings: without `allowed.paths`, a provider would read any file."""
    for key in given:
        near = None if key in cls.settings() else nearest(key, cls.settings())
        if near is not None:
            raise ConfigError(f"Unknown configuration {prefix}{key}: did you mean {prefix}{near}?")


def _is_password(cls: type[ConfigProvider], key: str) -> bool:
    """Say whether a setting is a secret: by its declaration, or else, since Java's declare none, by its key."""
    declared = cls.settings().get(key)
    return is_secret_name(key) if declared is None else declared.kind is Type.PASSWORD


def _by_path(every: Iterable[Reference]) -> dict[tuple[str, str], list[Reference]]:
    found: dict[tuple[str, str], list[Reference]] = {}
    for one in every:
        found.setdefault((one.provider, one.path), []).append(one)
    return found


def is_of_providers(key: str) -> bool:
    """Say whether a key declares or configures config providers."""
    return key == _PROVIDERS or key.startswith(f"{_PROVIDERS}.")


def providers_of(properties: Mapping[str, object]) -> Providers:
    """Return the providers that these properties declare; this process has one object for equal settings."""
    return _cached(tuple(sorted((k, str(v)) for k, v in properties.items() if is_of_providers(k))))


@lru_cache(maxsize=64)
def _cached(settings: tuple[tuple[str, str], ...]) -> Providers:
    return Providers(dict(settings))


_JAVA_OPTIONS = WorkerConfig.key_of("java_host_options")
_PLUGIN_PATH = WorkerConfig.key_of("plugin_path")


def worker_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a worker's, or a mirror's, file with all references replaced.

    The settings of providers stay as they are. Providers may be in the directories of `plugin.path`, which therefore
    cannot be a reference. Raises ConfigError with all faults.
    """
    directories = properties.get(_PLUGIN_PATH, "")
    if "${" not in directories:
        options = properties.get(_JAVA_OPTIONS, "")
        use_plugin_path(names_in(directories), options.split())
    found = providers_of(properties).of_worker.look_up(properties)
    if _PLUGIN_PATH in found.values and found.values[_PLUGIN_PATH] != directories:
        raise ConfigError(f"{_PLUGIN_PATH}: it names where providers are found, so it cannot be a reference: write it")
    found.keep_hidden()
    return found.require_now()
