"""What tasks of every kind share: the life of one start, its admission, counters and plug-ins."""
