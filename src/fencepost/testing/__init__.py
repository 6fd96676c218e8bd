"""What authors and Fencepost's own tests use: waiting, verdicts, sources that crash on command."""

from fencepost.testing.waiting import eventually

__all__ = ["eventually"]
