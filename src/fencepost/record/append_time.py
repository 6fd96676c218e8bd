"""Timestamps that say who has set them."""


class AppendTime(int):
    """A timestamp that the broker has set as it appended the record (`message.timestamp.type=LogAppendTime`)."""

    __slots__ = ()
