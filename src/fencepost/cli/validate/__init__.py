"""`fencepost validate`: what is wrong with files of connectors."""
