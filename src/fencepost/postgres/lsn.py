"""LSNs: positions in the log of a Postgres server, in bytes from its beginning."""


def parse_lsn(text: str) -> int:
    """Return the position that Postgres writes as `0/16B3748`. Raises ValueError for another text."""
    high, slash, low = text.partition("/")
    if not slash or not 1 <= len(high) <= 8 or not 1 <= len(low) <= 8:
        raise ValueError(f"{text!r} is not an LSN: write it as Postgres does, such as 0/16B3748")
    try:
        return int(high, 16) << 32 | int(low, 16)
    except ValueError:
        raise ValueError(f"{text!r} is not an LSN: write it as Postgres does, such as 0/16B3748") from None


def format_lsn(lsn: int) -> str:
    """Return a position as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
