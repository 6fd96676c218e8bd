"""What sources inherit from the worker's file."""

from fencepost.config.setting import LOW, Config, setting


class SourceDefaults(Config):
    """What sources inherit, unless their own configs say otherwise."""

    ledger_topic: str = setting(
        "ledger.topic",
        default="",
        importance=LOW,
        doc="The topic of the ledger of each source that can have one and whose config has no `ledger.topic`; an empty "
        "one there means that it has none. Empty: no ledger.",
    )
