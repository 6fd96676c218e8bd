"""Transactional producers behind one interface, and writers of single records."""
