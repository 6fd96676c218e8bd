"""The only importer of PySpark: the session, slots, splits, and the `fencepost` data source.

Core types: `session.session.SparkRuntime` (a JVM and its session), `slot.job.SlotJobs` (long-running Spark tasks that
host task loops), `slot.cores.CoreLedger` (slots and the largest DataFrame job never need more cores than Spark offers),
`datasource.FencepostDataSource` (the data source `fencepost`: splits, epochs, direct writes, topics as rows),
`split.splits.run_split`. Decision 0069 says which room may import which.

Guarantees:
- The Python processes of executors are forked before any client exists (E8). A slot's process ends with its slot, so
that no leftover thread outlives it. A process that served a split is reused, after its clients are closed.
- A split is committed as done only after Spark has sent all of its rows (`partition.stream_end`).
- A secret reaches executors only in the environment of their Python processes: it is in no conf, no plan, on no command
line, and not in what YARN and Kubernetes keep about a container (E11).
- Spark's commit coordinator is never relied on: every attempt at a split or a range is fenced by the next one's
`init_transactions`, and tasks of other writes send nothing (`write`).

Import from the modules: this package imports nothing by itself.
"""
