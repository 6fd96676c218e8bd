"""How observations ask other workers."""

from collections.abc import Collection, Mapping
from typing import Protocol


class Asking(Protocol):
    """The part of `Questions` that is needed here."""

    def ask(self, urls: Collection[str], path: str, within_s: float) -> Mapping[str, bytes]: ...
