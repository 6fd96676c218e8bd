"""Whoever has a transaction open over a task's input is waited for, and not fenced (E20)."""

from fencepost.transaction.input_fence import InputFence
from planted import replace

replace(InputFence, "fence", lambda self, contributors: [])
