"""Hides the secrets of connectors that workers show: Kafka Connect does, in configs and traces."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fencepost.config.reference import is_placeholder
from fencepost.plugin.secret_keys import looks_secret, secrets_and_shown
from fencepost.secret.known import Secrets
from fencepost.secret.redaction import HIDDEN, redacted

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

_CLASS = "connector.class"


class Masking:
    """Knows which values are secret: by what their class declares, by names of keys, by the form of values.

    What any of the configs shows elsewhere, or is named like a connector or a class, is not hidden in texts.
    """

    def __init__(self) -> None:
        self._declared: dict[str, frozenset[str]] = {}
        self._secrets = Secrets()
        self._configs: list[Mapping[str, str]] = []
        self._names: list[str] = []
        self._changes = 0
        self._shown = 0, ""

    def learn(self, connect: "Connect", config: Mapping[str, str]) -> None:
        """Ask what a config's class declares as passwords, and hide a config's secrets in all texts from now on.

        A worker that does not know the class leaves the names of keys and the forms of values.
        """
        from fencepost.cli.connect import RefusedError

        name = config.get(_CLASS, "")
        if name and name not in self._declared:
            try:
                found = connect.find("connector-plugins", name, "config") or []
            except RefusedError:
                found = []
            self.declare(name, (each["name"] for each in found if each.get("type") == "PASSWORD"))
        self.remember(config)

    def declare(self, name: str, keys: Iterable[str]) -> None:
        """Note which keys the class of that name has for passwords."""
        self._declared[name] = self._declared.get(name, frozenset()) | frozenset(keys)
        self._changes += 1

    def remember(self, config: Mapping[str, str]) -> None:
        """Hide a config's secrets in all texts from now on."""
        for secret in secrets_and_shown(config, self.secret_keys(config))[0]:
            self._secrets.remember(secret)
        if config not in self._configs:
            self._configs.append(config)
            self._changes += 1

    def show(self, name: str) -> None:
        """Note a name that is shown as it is."""
        self._names.append(name)
        self._changes += 1

    def secret_keys(self, config: Mapping[str, str]) -> set[str]:
        """Return the keys whose values must not be shown. References are no secrets."""
        declared = self._declared.get(config.get(_CLASS, ""), frozenset())
        return {
            key
            for key, value in config.items()
            if value and not is_placeholder(value) and (key in declared or looks_secret(key, value))
        }

    def config(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a config to be shown."""
        keys = self.secret_keys(config)
        return {key: HIDDEN if key in keys else self.text(value) for key, value in config.items()}

    def text(self, text: str) -> str:
        """Return a text to be shown, such as a trace."""
        return redacted(self._secrets.hide(text, unless_in=self._shown_texts()))

    def _shown_texts(self) -> str:
        """Return what names and configs show. Threads declare classes: what was no secret before may be one now."""
        changes, shown = self._shown
        if changes != self._changes:
            changes = self._changes
            texts = [secrets_and_shown(each, self.secret_keys(each))[1] for each in list(self._configs)]
            shown = "\n".join([*self._names, *texts])
            self._shown = changes, shown
        return shown
