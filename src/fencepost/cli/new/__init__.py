"""`fencepost new`: writes the project of a plug-in."""
