"""Files by which a test and a connector in another process communicate: how often it started, whether it shall fail."""

from pathlib import Path
from urllib.parse import quote


class Board:
    """A directory by which a test and a connector in other processes know of each other.

    `task` None is the connector itself.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def starts(self, connector: str, task: int | None = None) -> int:
        """Return how often it was started."""
        file = self._file("starts", connector, task)
        return file.stat().st_size if file.exists() else 0

    def note_start(self, connector: str, task: int | None = None) -> None:
        with self._file("starts", connector, task).open("ab") as file:
            file.write(b".")

    def is_broken(self, connector: str, task: int | None = None) -> bool:
        return self._file("broken", connector, task).exists()

    def set_broken(self, connector: str, task: int | None, *, is_broken: bool) -> None:
        file = self._file("broken", connector, task)
        file.touch() if is_broken else file.unlink(missing_ok=True)

    def _file(self, what: str, connector: str, task: int | None) -> Path:
        return self._directory / f"{what}-{quote(connector, safe='')}-{'connector' if task is None else task}"
