"""What the executor of a DataFrame split asks the worker."""

from collections.abc import Sequence
from typing import Any

from fencepost.api import FencedError
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.client import ChannelClient
from fencepost.task.channel.message import Path
from fencepost.task.channel.split_message import (
    RunRequest,
    SplitAdmission,
    SplitCopies,
    SplitExpiry,
    SplitReport,
    SplitRun,
    SplitUnchanged,
    TemporaryFailure,
)


class SplitClient:
    """The worker as the executor of a split sees it. Calls raise ChannelError."""

    def __init__(self, channel_url: str, run: str) -> None:
        self._channel = ChannelClient(channel_url)
        self._run = run

    def _call(self, path: Path, body: dict[str, Any]) -> dict[str, Any]:
        return self._channel.call(path, body, timeout_s=120)

    def _ask(self, path: Path) -> dict[str, Any]:
        return self._call(path, RunRequest(self._run).to_json())

    def spec(self) -> SplitRun:
        return SplitRun.from_json(self._ask(Path.SPLIT_SPEC))

    def admit(self) -> SplitAdmission:
        """Ask to write, after every `init_transactions` (steps 6 and 7 of docs/architecture.md). Raises FencedError."""
        answer = SplitAdmission.from_json(self._ask(Path.SPLIT_ADMIT))
        if not answer.is_admitted:
            raise FencedError(f"split run {self._run} is not admitted: {answer.reason}")
        return answer

    def is_unchanged(self) -> bool:
        """Say whether the splits still are what was planned; called before every commit."""
        return SplitUnchanged.from_json(self._ask(Path.SPLIT_UNCHANGED)).is_unchanged

    def copy(self, copies: Sequence[OffsetCopy]) -> None:
        """Let the worker copy offsets to its own topic; returns once they are acknowledged."""
        self._call(Path.SPLIT_COPY, SplitCopies(self._run, tuple(copies)).to_json())

    def report(self, rows: Sequence[int], *, skipped: bool, commit_s: float) -> None:
        """Report that the splits are committed, with their numbers of rows, or were found already done (`skipped`)."""
        self._call(Path.SPLIT_REPORT, SplitReport(self._run, tuple(rows), skipped, commit_s).to_json())

    def expired(self, after_s: float) -> None:
        """Report that the broker ended the transaction because it was open for longer than its timeout."""
        self._call(Path.SPLIT_EXPIRED, SplitExpiry(self._run, after_s).to_json())

    def temporary_failure(self, reason: str) -> None:
        """Report that the run ends with a passing error, so that it is retried without a limit."""
        self._call(Path.SPLIT_TEMPORARY_FAILURE, TemporaryFailure(self._run, reason).to_json())
