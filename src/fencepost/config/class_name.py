"""Names of plug-ins' classes, and the shorter names that configs may use for them."""


def answers_to(full: str, name: str, suffix: str) -> bool:
    """Say whether a config may call a class `name`: in full, without its package, or without `suffix` as well.

    These are Kafka Connect's aliases. `suffix` is that of the plug-in's kind, such as `Connector`.
    """
    short = full.rpartition(".")[2]
    return name in (full, short, short.removesuffix(suffix))
