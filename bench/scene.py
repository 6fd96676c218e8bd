"""Where a case of the cluster plays: a broker, a directory, a side, and how often to look."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.group import workers
from bench.options import say
from bench.side import Side
from bench.statistic import number
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

SEED = 5
STEADY_S = (1.0, 2.0)
"""What passes between two measurements."""
PATIENCE_S = 400.0
"""Kafka Connect leaves a lost worker's tasks alone for five minutes."""
LINES_PER_S = 500

Samples = dict[str, list[float]]
"""What was measured, by row."""


@dataclass(frozen=True)
class Scene:
    """Workers are of one group, and gone with all below them at the end."""

    kafka: EmbeddedKafka
    directory: Path
    side: str
    count: int

    @contextmanager
    def workers(self, count: int, settings: Mapping[str, str] | None = None) -> Iterator[list[Side]]:
        with workers(self.side, self.kafka.bootstrap_servers, self.directory, count, settings) as group:
            yield group

    def topics(self, *names: str) -> None:
        """Create them, of one partition each."""
        for name in names:
            Admin({"bootstrap.servers": self.kafka.bootstrap_servers}).topics.create(name, partitions=1, replication=1)

    @property
    def moments(self) -> random.Random:
        """For moments that are the same in each run."""
        return random.Random(SEED)

    def tell(self, what: str, values: Sequence[float]) -> None:
        """For whoever waits."""
        say(f"{what:12} {self.side:10} {', '.join(number(value) for value in values[-8:])} (n {len(values)})")


Measure = Callable[[Scene], Samples]
