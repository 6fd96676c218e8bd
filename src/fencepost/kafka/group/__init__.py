"""Consumer groups: members, committed offsets, who contributes to them, transactions that are open."""
