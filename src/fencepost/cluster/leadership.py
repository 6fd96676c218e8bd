"""What other packages need to know about the leader."""

from typing import Protocol


class Leadership(Protocol):
    """Tells whether this worker leads the cluster (`Leader`)."""

    @property
    def is_leading(self) -> bool: ...


class LeaderState(Leadership, Protocol):
    """Also tells what the leader fails to do."""

    @property
    def refusal(self) -> str | None:
        """Return why this leader cannot write an assignment, or anything of its own; None if it can."""
