"""`fencepost acls`: the rights that workers and connectors need in Kafka, and as whom their clients connect."""
