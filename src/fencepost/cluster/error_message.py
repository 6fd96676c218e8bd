"""The message in an error's answer, of ours or of Kafka Connect."""

from typing import Any, Protocol


class HttpAnswer(Protocol):
    """What an answer of httpx has."""

    status_code: int

    def json(self) -> Any: ...


def error_message(answer: HttpAnswer) -> str:
    """Return the field `message` of an answer's body, or its status if it has none."""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
