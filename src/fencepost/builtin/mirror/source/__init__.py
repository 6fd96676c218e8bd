"""The connector that copies records: which topics and partitions, where it is in each, and offset syncs.

Its positions are in the offsets topic, like those of any source.
"""
