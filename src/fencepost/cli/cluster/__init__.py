"""Commands about a cluster: its workers, its mirrors, its topics, and rights in its Kafka."""
