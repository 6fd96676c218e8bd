"""Debezium's transforms of change events, under their names: `ExtractNewRecordState` and the outbox `EventRouter`.

They work on the envelopes that Debezium's connectors for SQL databases write, with schemas, as the originals do. Their
results are those of Debezium 3.6.1.
"""
