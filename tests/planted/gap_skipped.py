"""A log that does not go on at its position is read from where it does, and nobody is told."""

from fencepost.kafka.read.plan_input import PlanInput
from fencepost.kafka.value.fetched import Fetched
from planted import replace


def _poll(self: PlanInput, timeout_s: float, most: int) -> Fetched:
    fetched: Fetched = known(self, timeout_s, most)
    for place, gap in list(self.gaps.items()):
        self.go_on(place, gap.start)
    return fetched


known = replace(PlanInput, "poll", _poll)
