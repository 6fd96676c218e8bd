"""What a source is to the demo: where its files are, which connector reads them, and what must come of them."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from fencepost.testing.verdict import Observation, Sighting

Content = Hashable
ONE_PARTITION = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
"""So that the order of a whole file can be seen, not only of what shares a partition."""

Place = tuple[str, int]
"""A file, which is a source partition, and the number of a row in it, from 1."""


@dataclass
class Source:
    """A connector and the rows that it is to write to a topic, known from the files alone.

    `content_of` reads a record back into what `places` is keyed by. A record that is in no file has no place.
    """

    name: str
    config: Mapping[str, str]
    topic: str
    content_of: Callable[[bytes], Content]
    tasks: int = 1
    places: dict[Content, Place] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.places)

    def add(self, file: str, contents: list[Content]) -> None:
        """Tell what is in a file. Raises ValueError for rows that could not be told from each other."""
        before = self.rows
        self.places.update((content, (file, number)) for number, content in enumerate(contents, 1))
        if self.rows != before + len(contents):
            raise ValueError(f"{file} has a row that is there already: the ledger could not tell them apart")

    def expected(self) -> dict[str, list[int]]:
        """For `judge`: the rows of each file, in order."""
        rows: dict[str, list[int]] = {}
        for file, number in self.places.values():
            rows.setdefault(file, []).append(number)
        return rows

    def sighting(self, observation: Observation) -> Sighting:
        """For `judge`: which row a record is. Raises LookupError or ValueError for one that is in no file."""
        return Sighting(*self.places[self.content_of(observation.value or b"")])

    def transactional_ids(self, group: str) -> list[str]:
        """Kafka Connect's ids: group, connector, number of the task."""
        return [f"{group}-{self.name}-{task}" for task in range(self.tasks)]
