"""`fencepost audit`."""
