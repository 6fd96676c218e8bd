"""What happens to records that fail: retries, tolerance and dead letters."""
