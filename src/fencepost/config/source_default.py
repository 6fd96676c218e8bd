"""What sources inherit from the worker's file."""

from fencepost.config.closed_topics import CLOSED, ClosedTopics
from fencepost.config.setting import LOW, Config, setting


class SourceDefaults(Config):
    """What sources inherit, unless their own configs say otherwise."""

    def ledger_fault(self, closed: ClosedTopics) -> str | None:
        """Return why the ledger cannot be in its topic; None if it can."""
        topic = self.ledger_topic.strip()
        key = type(self).key_of("ledger_topic")
        return f"Invalid value {topic} for configuration {key}: {CLOSED}" if closed.has(topic) else None

    ledger_topic: str = setting(
        "ledger.topic",
        default="",
        importance=LOW,
        doc="The topic of the ledger of each source that can have one and whose config has no `ledger.topic`; an empty "
        "one there means that it has none. Empty: no ledger.",
    )
