"""The only importer of the Kafka client libraries: clients, admin calls, reading a log to its end.

Core types: `admin.client.Admin`, `read.log.LogReader`, `produce.batch_client.BatchClient`, `fork.ForkGuard`. Which room
imports which is decision 0069. Import from the modules: no package pulls in anything by itself, so that processes that
do without Arrow or kafka-python stay small. Keeps E8 (no client crosses a fork).
"""
