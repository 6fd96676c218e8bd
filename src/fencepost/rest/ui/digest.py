"""Whether a browser has seen a part of a page already."""

import hashlib

from fencepost.rest.response import to_json


def digest(content: object) -> str:
    """Return a short text that is the same for the same content."""
    return hashlib.blake2b(to_json(content), digest_size=6).hexdigest()
