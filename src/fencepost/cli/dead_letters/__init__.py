"""`fencepost dead-letters`: shows dead letters, and resends those of sinks."""
