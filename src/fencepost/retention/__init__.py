"""Topics that empty themselves (KIP-762): what every sink has committed, and nobody else reads, is deleted."""
