"""A log that does not go on at its position is read from where it does, and nobody is told."""

from fencepost.kafka.group_input import Fetched
from fencepost.kafka.plan_input import PlanInput
from planted import replace


def _poll(self: PlanInput, timeout_s: float, most: int) -> Fetched:
    fetched: Fetched = known(self, timeout_s, most)
    for place, gap in list(self.gaps.items()):
        self.go_on(place, gap.start)
    return fetched


known = replace(PlanInput, "poll", _poll)
