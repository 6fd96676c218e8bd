"""Python's side of a host: its process, the connections, and what they carry."""
