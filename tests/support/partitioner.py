"""The partition that Java's default partitioner chooses for a key, by kafka-python's hash."""

from kafka.partitioner.default import murmur2


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition, of `partitions`, that a record with this key goes to."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
