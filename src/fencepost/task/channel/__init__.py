"""The signed HTTP channel between workers and executors: messages, signatures and the clients of both ends."""
