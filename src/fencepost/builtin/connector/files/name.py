"""Names of files made from users' names, which may be longer than a file name may be."""

import hashlib

NAME_MAX_BYTES = 255
"""The longest name of a file or directory, on every common file system."""

_DIGEST = 16


def shortened(name: str, most: int) -> str:
    """Return the name, or if it has more than `most` bytes, its beginning with a digest of the whole.

    The same name always gives the same result; a tilde precedes the digest.
    """
    data = name.encode()
    if len(data) <= most:
        return name
    kept = data[: most - _DIGEST - 1].decode(errors="ignore")
    return f"{kept}~{hashlib.sha256(data).hexdigest()[:_DIGEST]}"
