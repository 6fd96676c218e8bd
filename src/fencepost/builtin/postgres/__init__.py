"""Postgres natively: a source that writes what Debezium writes, and a sink, each exactly once."""
