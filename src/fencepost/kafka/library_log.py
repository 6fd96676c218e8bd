"""The log lines of librdkafka, without the useless ones."""

import logging

_NOISE = (
    "CONFWARN",  # settings for another kind of client
    "GETPID",  # a coordinator that is still loading; the client retries
)


def library_log(name: str) -> logging.Logger:
    """Return the logger to pass to a client that is created in module `name`."""
    logger = logging.getLogger(f"{name}.librdkafka")
    if not logger.filters:
        logger.addFilter(lambda record: not record.getMessage().startswith(_NOISE))
    return logger
