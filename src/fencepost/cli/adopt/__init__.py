"""`fencepost adopt`: takes over the group of another program."""
