"""Postgres by its own protocols: connections, logical replication (pgoutput), COPY, and what its catalogs say."""
