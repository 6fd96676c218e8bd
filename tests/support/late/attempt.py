"""Random decisions about what happens to one request of one transaction."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from support.proxy import Action, ApiKey

MOST_RECORDS = 40
TRANSACTIONS = 8

_FAULTS = (Action.HOLD_AND_RESET, Action.HOLD_AND_RESET, Action.RESET, Action.HOLD)
_OF_TASKS = (ApiKey.END_TXN, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE)
_OF_GROUPS = (ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)
_MOMENTS = ((ApiKey.ADD_PARTITIONS_TO_TXN, 1), (ApiKey.PRODUCE, 1), (ApiKey.PRODUCE, 2), (ApiKey.END_TXN, 1))


@dataclass(frozen=True)
class Attempt:
    """`action` meets request number `nth` of its kind in `lane`; it arrives before the `before` of the transaction
    after it in that lane: its kind and number.
    """

    request: ApiKey
    action: Action
    nth: int
    before: tuple[ApiKey, int]
    sizes: tuple[int, ...]
    lane: int = 0
    lanes: int = 1
    is_group: bool = False

    def __str__(self) -> str:
        kind, number = self.before
        how = "in a group" if self.is_group else f"lane {self.lane + 1} of {self.lanes}"
        return (
            f"{self.action.name.lower()} {self.request.name} {self.nth} ({how}), late before {kind.name} {number}, "
            f"{sum(self.sizes)} records in {len(self.sizes)}"
        )

    @property
    def total(self) -> int:
        return sum(self.sizes)


def plan(seed: int, count: int) -> Iterator[Attempt]:
    """Yield attempts, always the same for a seed: one lane, two lanes and a group in turns."""
    random = Random(seed)
    for number in range(count):
        lanes, is_group = (1, 2, 2, 1)[number % 4], number % 4 == 3
        yield Attempt(
            request=random.choice(_OF_GROUPS if is_group else _OF_TASKS),
            action=random.choice(_FAULTS),
            nth=random.randint(1, 2),
            before=random.choice(_MOMENTS),
            sizes=tuple(random.randint(1, MOST_RECORDS) for _ in range(TRANSACTIONS)),
            lane=random.randrange(lanes),
            lanes=lanes,
            is_group=is_group,
        )
