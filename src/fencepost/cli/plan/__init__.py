"""`fencepost plan`: what a connector would do with a few real records. Nothing is written."""
