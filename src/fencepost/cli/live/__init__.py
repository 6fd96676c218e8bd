"""`fencepost top` and `fencepost logs`: what runs, as it goes on."""
