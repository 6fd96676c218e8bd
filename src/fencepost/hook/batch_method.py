"""Whether the methods of a plug-in for many records at once do what its methods for a single record do."""

from collections.abc import Set
from functools import cache
from inspect import isroutine
from typing import Any

_BUILT_IN = "fencepost."


def covers(plugin: Any, contract: tuple[type[Any], ...], by_record: Set[str], by_batch: Set[str]) -> bool:
    """Say whether a class's methods for batches do what its methods for a record do, as far as can be told.

    A class may inherit its methods for batches. They know nothing of a method that it overrides: one for a record, or
    any other method of the class that it derives from, which the method for a record may call. Such a class is called
    for each record, until it overrides the method for batches, too. Classes of Fencepost are exempt: tests compare
    both ways of each of them.

    Args:
        plugin: The class.
        contract: The abstract classes that it may have, whose methods for batches do nothing.
        by_record: Methods of the contract for a record.
        by_batch: Methods of the contract that do the same for many records.
    """
    return _covers(plugin, contract, by_record, by_batch)


@cache
def _covers(plugin: Any, contract: tuple[type[Any], ...], by_record: Set[str], by_batch: Set[str]) -> bool:
    lineage = [each for each in plugin.__mro__ if not any(issubclass(one, each) for one in contract)]
    for place, each in enumerate(lineage):
        own = vars(each)
        if not own.keys().isdisjoint(by_batch):
            return True
        if not own.keys().isdisjoint(by_record):
            return False
        if each.__module__.startswith(_BUILT_IN):
            continue
        inherited = {name for base in lineage[place + 1 :] for name in vars(base)}.difference(*map(dir, contract))
        if any(name in inherited and (isroutine(value) or isinstance(value, property)) for name, value in own.items()):
            return False
    return False
