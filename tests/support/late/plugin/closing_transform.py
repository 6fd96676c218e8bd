"""A transform that records in a file when it is created and closed."""

from pathlib import Path

from fencepost.api import Record, Transform, setting


class Closing(Transform):
    """Leaves records as they are. `fails`: what it raises when it is closed."""

    path: str = setting("path", doc="The file.")
    fails: str = setting("fails", default="", doc="The text of an error.")

    def apply(self, record: Record) -> Record:
        self._say("applied")
        return record

    def close(self) -> None:
        self._say("closed")
        if self.fails:
            raise RuntimeError(self.fails)

    def _say(self, what: str) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{what}\n")
