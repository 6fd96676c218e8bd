"""What tests share: a worker as a child process, and ways to hurt it."""
