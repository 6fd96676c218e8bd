"""The options of a host's JVM. The user's own follow, and override them; where Java refuses both, ours give way."""

import re
import sys
from collections.abc import Sequence

from fencepost.embedded.java import LATE_COMPILER, Java

# The heap begins small, and goes back to the system when Garbage, of the host's, has found what nothing uses. FreeHeap
# changes how much of it is free, if it finds these numbers. How large the heap may become, and stacks, is left to Java:
# a poll of Debezium's may have thousands of large rows.
_FIRST_HEAP = 16 << 20
_LEAST_FREE, _MOST_FREE = 20, 40
_OTHER_FIRST_HEAP = re.compile(r"-XX:(InitialHeapSize|MinHeapSize|InitialRAMPercentage|InitialRAMFraction)=.*")
_LARGEST_HEAP = re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)(\d+)([kKmMgGtT]?)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_OTHER_COLLECTOR = re.compile(r"-XX:\+(Use(G1|Z|Shenandoah|Parallel|Epsilon)GC|AggressiveHeap)")
# From these updates on, Java gives back what its compilers and plug-ins have freed outside of its heap (JDK-8325496).
_TRIMS = {17: 12, 21: 4}
_ALL_TRIM = 23
_TRIM = "-XX:TrimNativeHeapInterval=10000"
_OPTIONS = (
    "-XX:-ShrinkHeapInSteps",
    *LATE_COMPILER,
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-CreateCoredumpOnCrash",
    "-Dfile.encoding=UTF-8",
    "-Djava.awt.headless=true",
)


def jvm_options(java: Java, chosen: Sequence[str] = ()) -> list[str]:
    """Return the options of a host. `chosen` are its user's, which are to follow."""
    update = re.match(r"\d+\.\d+\.(\d+)", java.version)
    trims = java.major >= _ALL_TRIM or (update and int(update[1]) >= _TRIMS.get(java.major, sys.maxsize))
    return [*plain_options(chosen), *([_TRIM] if trims else [])]


def plain_options(chosen: Sequence[str] = ()) -> list[str]:
    """Return those of `jvm_options` that each Java has which we support."""
    return [*_first_heap(chosen), *_free_heap(chosen), *_collector(chosen), *_OPTIONS]


def _first_heap(chosen: Sequence[str]) -> list[str]:
    """Java refuses a first heap that is larger than the largest; the others would be refused, or do nothing."""
    largest = _last(_LARGEST_HEAP, chosen)
    is_above = largest is not None and int(largest[1]) * _UNITS[largest[2].lower()] < _FIRST_HEAP
    return [] if is_above or _last(_OTHER_FIRST_HEAP, chosen) else [f"-Xms{_FIRST_HEAP >> 20}m"]


def _free_heap(chosen: Sequence[str]) -> list[str]:
    """Java refuses a least that is above the most."""
    least = _last(re.compile(r"-XX:MinHeapFreeRatio=(\d+)"), chosen)
    most = _last(re.compile(r"-XX:MaxHeapFreeRatio=(\d+)"), chosen)
    return [
        f"-XX:MinHeapFreeRatio={min(_LEAST_FREE, int(most[1])) if most else _LEAST_FREE}",
        f"-XX:MaxHeapFreeRatio={max(_MOST_FREE, int(least[1])) if least else _MOST_FREE}",
    ]


def _collector(chosen: Sequence[str]) -> list[str]:
    """Java refuses two."""
    return [] if _last(_OTHER_COLLECTOR, chosen) else ["-XX:+UseSerialGC"]


def _last(option: re.Pattern[str], chosen: Sequence[str]) -> re.Match[str] | None:
    return next((found for each in reversed(chosen) if (found := option.fullmatch(each))), None)
