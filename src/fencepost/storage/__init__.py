"""The state of a cluster of workers, in Kafka Connect's three internal topics and exact record formats.

Core types: `ClusterSnapshot` (what the config topic says, folded and frozen), `ConfigTopic` and `TopicWriter`,
`StatusTopic`, `OffsetReader`, `TaskId`. Import from the modules.

Guarantees: a snapshot never changes; half-written task configs are never visible (only a commit record applies them);
malformed records are logged and skipped, never fatal. Keeps the reading half of E3 (offsets are read up to the
uncommitted end) and of E4 (the config topic is read read_committed in every mode).
"""
