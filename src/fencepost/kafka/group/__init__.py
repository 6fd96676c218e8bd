"""Consumer groups: their members, committed offsets, the producers that commit them, and open transactions."""
