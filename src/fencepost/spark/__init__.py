"""The only importer of PySpark: the session, the slots, the splits, and the `fencepost` data source.

Core types: `session.session.SparkRuntime` (a JVM and its session), `slot.job.SlotJobs` (long-running Spark tasks that
host task loops), `slot.cores.CoreLedger` (slots and the largest DataFrame job never need more cores than Spark offers),
`datasource.FencepostDataSource` (the data source `fencepost`: splits, epochs, direct writes, topics as rows),
`split.splits.run_split`. Which room imports which is decision 0069.

What holds:

- the Python processes of executors are forked before any client exists (E8); a slot's process ends with its slot, so
  that no thread that was left behind outlives it; one that served a split is used again, its clients are closed;
- a split is committed as done only when Spark has sent all of its rows (`partition.stream_end`);
- a secret reaches executors through their environment only: it is in no plan, no closure and on no command line (E11);
- Spark's commit coordinator is never relied on: every attempt is fenced by the next one's `init_transactions`.

Import from the modules: this package pulls in nothing by itself.
"""
