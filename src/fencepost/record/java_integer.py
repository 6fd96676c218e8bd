"""Integers as in Java: of a fixed width, or of any size as the bytes of a BigInteger."""


def fits(number: int, bits: int) -> bool:
    """Return whether a signed integer of `bits` holds the number."""
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def cut(number: int, bits: int) -> int:
    """Return the lowest `bits` of a number as a signed integer, as Java's narrowing conversion does."""
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def big_integer(number: int) -> bytes:
    """Return the bytes of Java's BigInteger: as few as hold the number and its sign, the highest first."""
    bits: int = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
