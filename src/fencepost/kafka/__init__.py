"""The only package that imports Kafka client libraries: clients, admin calls, and readers of logs.

Core types: `admin.client.Admin`, `read.log.LogReader`, `produce.batch_client.BatchClient`, `fork.ForkGuard`. Decision
0069 says which room may import which. Import from the modules: the packages import nothing themselves, so that
processes without Arrow or kafka-python stay small. Keeps E8 (no client crosses a fork).
"""
