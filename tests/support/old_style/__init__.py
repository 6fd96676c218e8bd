"""Programs from before KIP-447, which used a group earlier: they consume, transform and produce exactly once."""
