"""`fencepost topic`: lists topics and shows records, which the workers read."""
