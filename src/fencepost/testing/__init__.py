"""What authors of connectors test with, as Fencepost's own tests do: `eventually`, the delivery verdict, a reader.

`judge` is the only verdict on a delivery, for a reader that watched the faults as for one that came afterwards.
`CommittedReader` reads what a consumer sees, and `TestingSource` follows a script of records and crashes. Nothing here
waits for ever, and an error contains what it waited for. Kafka is never imitated: run `EmbeddedKafka`.
"""

from fencepost.testing.waiting import eventually

__all__ = ["eventually"]
