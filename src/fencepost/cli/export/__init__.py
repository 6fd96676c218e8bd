"""`fencepost export`: the configs of a cluster, as files."""
