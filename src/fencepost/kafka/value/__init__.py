"""The values that the other rooms exchange: records as columns, whole batches, positions in logs and groups."""
