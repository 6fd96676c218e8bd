"""Records and offsets on their way to Kafka: producers in lanes, transactions, copies of offsets."""
