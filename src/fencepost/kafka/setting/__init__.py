"""Settings of clients: which there are, what they mean to each client, and what is refused."""
