"""`fencepost plugin`: what plug-ins there are, and the reference of each."""
