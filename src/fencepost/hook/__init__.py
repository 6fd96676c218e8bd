"""What the engine and the built-in plug-ins agree on beyond the contract for authors; it may change at any time."""
