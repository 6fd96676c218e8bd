"""A topic that is emptied behind its sink: how much it holds."""

from fencepost.kafka.admin.client import Admin


class EmptiedTopic:
    """Looks at how many offsets a topic holds: of records, and of the markers of transactions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.most = self.last = 0
        self._admin = Admin({"bootstrap.servers": bootstrap})

    def look(self) -> int:
        """Return how many it holds now."""
        found = self._admin.topics.get(self.topic)
        if found is not None:
            places = [(self.topic, partition) for partition in range(found.partitions)]
            starts, ends = self._admin.offsets.starts(places), self._admin.offsets.ends(places, read_committed=False)
            self.last = sum(ends[place] - starts[place] for place in places)
            self.most = max(self.most, self.last)
        return self.last
