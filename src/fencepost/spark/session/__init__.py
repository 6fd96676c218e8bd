"""The driver's JVM and its session: how they start and end."""
