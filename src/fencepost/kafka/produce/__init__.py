"""Transactional producers, and the writer that hides which client they are."""
