"""Messages of Kafka's protocol that kafka-python has not: requests and answers as JSON declares them, one file each."""
