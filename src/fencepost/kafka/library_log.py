"""The log lines of librdkafka, without those that help nobody."""

import logging

_NOISE = (
    "CONFWARN",  # settings that are meant for another kind of client
    "GETPID",  # a coordinator that is still loading; the client asks again
)


def library_log(name: str) -> logging.Logger:
    """Return the logger to give to a client that is made in module `name`."""
    logger = logging.getLogger(f"{name}.librdkafka")
    if not logger.filters:
        logger.addFilter(_is_worth_telling)
    return logger


def _is_worth_telling(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_NOISE)
