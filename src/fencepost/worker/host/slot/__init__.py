"""The slots of a worker: the pool that spreads tasks over them, and their part of the channel."""
