"""What authors and Fencepost's own tests use: waiting, verdicts, readers, network faults, sources that crash.

Core types: `judge` and its `Verdict`, `CommittedReader`, `KafkaProxy`, `TestingSource`.

What holds:

- there is one verdict, for a reader that watched the faults and for one that came afterwards;
- nothing here waits for ever, and what it waits for in vain is in the error;
- Kafka is never imitated: the proxy stands before a real broker.
"""

from fencepost.testing.waiting import eventually

__all__ = ["eventually"]
