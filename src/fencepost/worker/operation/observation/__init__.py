"""What is seen of running tasks, gathered from all workers."""
