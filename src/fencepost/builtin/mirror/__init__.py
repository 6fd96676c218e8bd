"""Mirrors topics from one Kafka cluster to another, with what consumers need to switch to the other cluster.

Connectors, topics, settings and record formats are those of Kafka's MirrorMaker 2.
"""
