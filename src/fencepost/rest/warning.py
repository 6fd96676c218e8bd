"""Warnings about keys of a connector's config, in a header: clients that do not know it ignore it."""

import json
from collections.abc import Sequence

from fencepost.cluster.info import KeyWarning

WARNINGS = "fencepost-warnings"
_MOST_CHARACTERS = 4000  # many servers and clients refuse headers of 8 KB


def warning_header(warnings: Sequence[KeyWarning]) -> dict[str, str]:
    """Return the header: a JSON list of texts, in ASCII; no header if there are no warnings."""
    texts = [one.message for one in warnings]
    while texts and len(json.dumps(texts)) > _MOST_CHARACTERS:
        texts = [*texts[:-2], f"{len(warnings) - len(texts) + 2} more"]
    return {WARNINGS: json.dumps(texts)} if texts else {}
