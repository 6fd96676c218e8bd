"""Offsets pass dead letters that nobody has acknowledged (E13)."""

from fencepost.task.sink.loop import SinkLoop
from planted import replace

replace(SinkLoop, "_are_dead_letters_safe", lambda self, *, is_last: True)
