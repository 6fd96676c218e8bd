"""Client settings: which exist, what they mean to each client, and which are refused."""
