"""Topics, the ends of logs, records that are deleted."""
