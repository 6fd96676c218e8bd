"""The only importer of the Kafka client libraries: clients, admin calls, reading a log to its end.

Core types: `Admin`, `LogReader`, `ForkGuard`. Import from the modules: this package pulls in nothing by itself, so
that `fork` and `partitioner` stay light. Keeps E8 (no client crosses a fork).
"""
