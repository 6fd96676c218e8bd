"""Records that a predicate tells apart are sent group by group, and not in the order in which they were polled."""

from fencepost.task.delivery import outgoing
from planted import replace

replace(outgoing, "in_order", lambda sources: list(range(len(sources))))
