"""Names of files that are made of names that users gave, which may be longer than a file's may be."""

import hashlib

NAME_MAX_BYTES = 255
"""The longest name of a file or directory, on every file system in use."""

_DIGEST = 16


def shortened(name: str, most: int) -> str:
    """Return a name of at most so many bytes: its beginning, and a digest of the whole, where it has more.

    The same name always gives the same; a tilde stands before the digest.
    """
    data = name.encode()
    if len(data) <= most:
        return name
    kept = data[: most - _DIGEST - 1].decode(errors="ignore")
    return f"{kept}~{hashlib.sha256(data).hexdigest()[:_DIGEST]}"
