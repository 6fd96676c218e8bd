"""The life of a stream's task in a slot: it reads as a member of a group, and writes in its own transactions."""
