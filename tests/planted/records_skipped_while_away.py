"""Where errors are tolerated, what a converter needs costs the record while it is away."""

from collections.abc import Callable
from typing import TypeVar

from fencepost.api import ConnectRecord
from fencepost.task.failure.tolerance import StoppedInRetryError, Tolerance
from planted import replace

T = TypeVar("T")


def _run(self: Tolerance, stage: str, operation: Callable[[], T], record: ConnectRecord) -> tuple[bool, T | None]:
    try:
        return True, self._retried(operation)
    except StoppedInRetryError:
        raise
    except Exception as error:
        self.failed(stage, error, record)
        return False, None


replace(Tolerance, "run", _run)
