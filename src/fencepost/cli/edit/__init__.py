"""`fencepost edit`: a connector's config in an editor."""
