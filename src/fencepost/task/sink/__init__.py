"""The life of a sink's task in a slot: it reads as a member of a group, and passes the records to `put`."""
