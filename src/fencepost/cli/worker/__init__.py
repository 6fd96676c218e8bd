"""`fencepost worker` and `fencepost dev`: a worker in the foreground."""
