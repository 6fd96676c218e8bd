"""Plug-ins of the tests of offsets: found in `plugin.path`, as a third party's would be."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.api import ConnectError, ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask, setting
from fencepost.task.delivery.copies import OffsetCopier
from fencepost.testing import eventually


class HookTask(SourceTask):
    """Nothing to do."""

    def poll(self) -> list[SourceRecord] | None:
        self.context.wait(0.1)
        return None


class HookConnector(SourceConnector):
    """Answers to a change of offsets as `answer` says."""

    task = HookTask
    answer: str = setting("answer", default="", doc="What alter_offsets does.")

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]) -> bool:
        if self.answer == "unsupported":
            raise NotImplementedError
        if self.answer == "refuses":
            raise ConnectError(f"not these: {sorted((dict(p), o) for p, o in offsets.items())}")
        if self.answer.startswith("waits in "):
            directory = Path(self.answer.removeprefix("waits in "))
            (directory / "asked").touch()
            eventually((directory / "go").exists, within_s=60)
        if self.answer == "breaks":
            raise RuntimeError("the password is hunter2")
        return self.answer == "external"


class FilesTask(SourceTask):
    """Reads `files` made-up files of `lines` lines, and forgets each once it is through (KIP-910)."""

    config: "FilesConnector"

    def start(self) -> None:
        if self.config.crash_after_forgetting:
            _kill_once_after(OffsetCopier, "forget", Path(self.config.crash_after_forgetting))
        done = self.context.offset({"done": True}).get("files", 0)
        self.file, self.line = done, self.context.offset({"file": done}).get("line", 0)
        self.over: dict[tuple[tuple[str, Any], ...], Mapping[str, Any] | None] = {}

    def poll(self) -> list[SourceRecord] | None:
        if self.file == self.config.files:
            self.context.wait(0.1)
            return None
        self.line += 1
        value = f"{self.file}-{self.line}"
        record = SourceRecord({"file": self.file}, {"line": self.line}, self.config.topic, value=value)
        if self.line == self.config.lines:
            self.over |= {(("done", True),): {"files": self.file + 1}, (("file", self.file),): None}
            self.file, self.line = self.file + 1, 0
        self.context.wait(0.01)
        return [record]

    def update_offsets(self, offsets: Any) -> Any:
        over, self.over = self.over, {}
        return over or None


class FilesConnector(SourceConnector):
    """Made-up files."""

    task = FilesTask
    topic: str = setting("topic", doc="Where lines go.")
    files: int = setting("files", default=3, doc="How many files there are.")
    lines: int = setting("lines", default=4, doc="How many lines each has.")
    crash_after_forgetting: str = setting(
        "crash.after.forgetting", default="", doc="Die once between the copy of a tombstone and the commit; a marker."
    )

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED


def _kill_once_after(cls: Any, name: str, marker: Path) -> None:
    method = getattr(cls, name)

    def and_die(self: Any, tombstones: Any) -> None:
        method(self, tombstones)
        if tombstones and not marker.exists():
            marker.write_text("dead")
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(cls, name, and_die)
