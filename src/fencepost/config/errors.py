"""The error that bad settings raise."""

from collections.abc import Sequence


class ConfigError(ValueError):
    """One or more settings are wrong. `messages` has one text per fault, each naming its key (E12)."""

    def __init__(self, messages: str | Sequence[str]) -> None:
        self.messages: tuple[str, ...] = (messages,) if isinstance(messages, str) else tuple(messages)
        super().__init__("\n".join(self.messages))
