"""`fencepost context`: the clusters of this user."""
