"""The same connector with positions in a consumer group of the target, in the transactions of its records (KIP-656)."""
