"""The race: Fencepost beside Kafka Connect 4.3.1 on one machine and one broker. `python -m bench`, or `make bench`.

Each part is a module with a `run(options) -> Result`: it starts the broker and both sides by itself, takes turns
between them, and stops all it started. Results are kept as JSON; `page` makes docs/explanation/benchmarks.md of them.

Core types: `Side` (`Fencepost`, `KafkaConnect`), `Watcher` (what is committed, seen from Kafka), `Result`.

What holds:

- both sides get the same worker file, connector configs, broker and input, and run one after the other, never at once;
- what is measured is seen from outside: by Kafka's offsets, by a consumer, over REST, in /proc;
- no number stands in the docs that a result file does not have.
"""
