"""A range ends where nothing is at the position, and what is left of it is not read (E16)."""

from fencepost.kafka.read.range_input import RangeInput
from planted import replace

replace(RangeInput, "_ask", lambda self, silence: setattr(self, "_at", self._wanted.end))
