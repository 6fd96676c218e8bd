"""An epoch's token is durable, and its offsets are committed, though its dead letters are not safe (E13)."""

import contextlib
from typing import Any

from fencepost.worker.host.epoch.sink_and_stream import EpochSinkTask
from planted import replace


def _write_dead_letters(self: EpochSinkTask, *args: Any) -> None:
    with contextlib.suppress(Exception):
        write_dead_letters(self, *args)


write_dead_letters = replace(EpochSinkTask, "_write_dead_letters", _write_dead_letters)
