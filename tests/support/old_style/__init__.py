"""Programs of others that a group belonged to before: consume, transform and produce, exactly once."""
