"""The loop of a source task: poll, transform, convert, send, and commit offsets at boundaries."""
