"""What is passed around: records as columns, whole batches, positions in logs and groups."""
