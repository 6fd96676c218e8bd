"""Options of Spark's readers and writers that configs may not set."""

from collections.abc import Iterable


def option_faults(keys: Iterable[object], prefix: str) -> list[str]:
    """Return a fault for each key that names other files than those of the connector, or is Spark's own (`__…`)."""
    options = ((key, str(key)[len(prefix) :].lower()) for key in keys if str(key).startswith(prefix))
    return [
        f"{key}: not an option that a connector may set; remove it"
        for key, option in options
        if option in ("path", "paths") or option.startswith("__")
    ]
