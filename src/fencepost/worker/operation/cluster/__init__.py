"""The cluster: who does what, log levels, retention, health, and requests of other workers."""
