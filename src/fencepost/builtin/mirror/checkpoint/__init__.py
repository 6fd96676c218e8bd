"""The connector that writes where the groups of the source continue at the target."""
