"""What all tasks with DataFrames have in common: a driver thread with its states, failures and Spark jobs."""
