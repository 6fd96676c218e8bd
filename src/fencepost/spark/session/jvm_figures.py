"""Heap and garbage collections of Spark's JVM, from its management beans."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class JvmFigures:
    """Bytes by area, `heap` and `nonheap`, and collections since the start by collector: how many, and seconds.

    An area without a maximum is not in `maximum`.
    """

    used: dict[str, int]
    maximum: dict[str, int]
    collections: dict[str, tuple[int, float]]


def jvm_figures(jvm: Any) -> JvmFigures:
    """Ask a gateway's JVM. Raises what Py4J raises if it does not answer."""
    beans = jvm.java.lang.management.ManagementFactory
    memory = beans.getMemoryMXBean()
    areas = {"heap": memory.getHeapMemoryUsage(), "nonheap": memory.getNonHeapMemoryUsage()}
    return JvmFigures(
        {name: int(area.getUsed()) for name, area in areas.items()},
        {name: int(area.getMax()) for name, area in areas.items() if area.getMax() >= 0},
        {
            str(each.getName()): (int(each.getCollectionCount()), each.getCollectionTime() / 1000)
            for each in beans.getGarbageCollectorMXBeans()
        },
    )
