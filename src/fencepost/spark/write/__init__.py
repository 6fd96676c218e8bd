"""Writing rows to Kafka: executors encode them, and the driver sends them in one transaction with the decision."""
