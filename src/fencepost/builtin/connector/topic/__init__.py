"""Topics to topics of the same cluster, record by record or by a query."""
