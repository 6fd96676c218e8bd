"""Keys of the entries that an offsets topic carries until they are in the ledger's topic. Imports no Arrow.

Such a key is the JSON array `["C", TASK, "LEDGER'S TOPIC", "ledger"]`. Those of source offsets have two members, so
neither replaces the other when the topic is compacted. What is carried for one ledger stays when the task gets another.
"""

import orjson

_END = b',"ledger"]'


def carried_key(connector: str, task: int, ledger: str) -> bytes:
    """Return the key under which a task's entries are carried, until they are in this ledger's topic."""
    return _beginning(connector) + b"%d" % task + _end(ledger)


def carried_bounds(connector: str, ledger: str) -> tuple[bytes, bytes]:
    """Return how the keys of all tasks of a connector begin, and how they end. No other keys do both."""
    return _beginning(connector), _end(ledger)


def is_carried(key: bytes | None) -> bool:
    """Return whether a record of an offsets topic carries entries. Keys of source offsets end with `}]` or `null]`."""
    return key is not None and key.endswith(_END)


def _beginning(connector: str) -> bytes:
    return orjson.dumps([connector])[:-1] + b","


def _end(ledger: str) -> bytes:
    return b"," + orjson.dumps(ledger) + _END
