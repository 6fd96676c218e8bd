"""Topics that empty themselves (KIP-762): settings of the worker."""

from fencepost.config.check import at_least, each
from fencepost.config.java_regex import java_regex
from fencepost.config.setting import LOW, MEDIUM, Config, Type, setting


class RetentionConfig(Config):
    """Which records are deleted once all sinks have committed them."""

    delete_committed_enabled: bool = setting(
        "delete.committed.enabled",
        default=False,
        importance=MEDIUM,
        doc="Whether records are deleted from topics once every sink connector that reads them has committed them "
        "(KIP-762). What is deleted is gone, also for readers that commit nothing.",
    )
    delete_committed_topics: list[str] = setting(
        "delete.committed.topics",
        default=[],
        importance=MEDIUM,
        check=each(java_regex()),
        doc="Java regular expressions, separated by commas; a topic is emptied only if one matches its whole name.",
    )
    delete_committed_respect_groups: list[str] = setting(
        "delete.committed.respect.groups",
        default=[],
        importance=LOW,
        check=each(java_regex()),
        doc="Java regular expressions of consumer groups outside of this cluster that are waited for like sinks. Any "
        "other group that reads a topic keeps it from being emptied.",
    )
    delete_committed_keep_records: int = setting(
        "delete.committed.keep.records",
        default=0,
        type=Type.LONG,
        check=at_least(0),
        importance=LOW,
        doc="How many offsets of each partition are kept behind what was committed, for sinks that rewind.",
    )
    delete_committed_keep_ms: int = setting(
        "delete.committed.keep.ms",
        default=0,
        type=Type.LONG,
        check=at_least(0),
        importance=LOW,
        doc="How old, by its timestamp, a record is at least when it is deleted; 0: any age.",
    )
