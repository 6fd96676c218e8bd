"""What other packages need to know about the leader."""

from typing import Protocol


class Leadership(Protocol):
    """Tells whether this worker leads the cluster (`Leader`)."""

    @property
    def is_leading(self) -> bool: ...
