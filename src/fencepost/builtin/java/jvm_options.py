"""The options of a host's JVM. They give way to those of users, in the environment and in the worker's file."""

import re
import sys
from collections.abc import Sequence

from fencepost.embedded.java import LATE_COMPILER, Java
from fencepost.embedded.jvm_options import environment_options, giving_way

# The heap begins small, and goes back to the system when Garbage, of the host's, has found what nothing uses. FreeHeap
# changes how much of it is free, if it finds these numbers. How large the heap may become, and stacks, is left to Java:
# a poll of Debezium's may have thousands of large rows.
_LEAST_FREE, _MOST_FREE = 20, 40
# From these updates on, Java gives back what its compilers and plug-ins have freed outside of its heap (JDK-8325496).
_TRIMS = {17: 12, 21: 4}
_ALL_TRIM = 23
_TRIM = "-XX:TrimNativeHeapInterval=10000"
_OPTIONS = (
    "-Xms16m",
    "-XX:+UseSerialGC",
    "-XX:-ShrinkHeapInSteps",
    *LATE_COMPILER,
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-CreateCoredumpOnCrash",
    "-Dfile.encoding=UTF-8",
    "-Djava.awt.headless=true",
)


def jvm_options(java: Java, chosen: Sequence[str] = ()) -> list[str]:
    """Return the options of a host. `chosen` are those of the worker's file, which are to follow."""
    update = re.match(r"\d+\.\d+\.(\d+)", java.version)
    trims = java.major >= _ALL_TRIM or (update and int(update[1]) >= _TRIMS.get(java.major, sys.maxsize))
    return [*plain_options(chosen), *(giving_way([_TRIM], _users(chosen)) if trims else [])]


def plain_options(chosen: Sequence[str] = ()) -> list[str]:
    """Return those of `jvm_options` that each Java has which we support."""
    users = _users(chosen)
    return giving_way([*_OPTIONS, *_free_heap(users)], users)


def _users(chosen: Sequence[str]) -> list[str]:
    return [*environment_options(), *chosen]


def _free_heap(users: Sequence[str]) -> list[str]:
    """Java refuses a least that is above the most."""
    least = _last(re.compile(r"-XX:MinHeapFreeRatio=(\d+)"), users)
    most = _last(re.compile(r"-XX:MaxHeapFreeRatio=(\d+)"), users)
    return [
        f"-XX:MinHeapFreeRatio={min(_LEAST_FREE, int(most[1])) if most else _LEAST_FREE}",
        f"-XX:MaxHeapFreeRatio={max(_MOST_FREE, int(least[1])) if least else _MOST_FREE}",
    ]


def _last(option: re.Pattern[str], users: Sequence[str]) -> re.Match[str] | None:
    return next((found for each in reversed(users) if (found := option.fullmatch(each))), None)
