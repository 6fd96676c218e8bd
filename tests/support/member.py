"""A member that stays in its group without a process of its own."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.kafka.group.member import GroupMembership, Term


def undisturbed_member(conf: Mapping[str, Any], topic: str, on_term: Callable[[Term], None]) -> GroupMembership:
    """Return a member that is neither denied nor replaced; where it is after all, that is raised in its thread."""
    return GroupMembership(conf, topic, on_term, _raise, _raise, lambda: True)


def _raise(error: Exception) -> None:
    raise error
