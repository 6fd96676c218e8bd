"""Audits: the records at one end of a connector, compared with the records at the other.

A source has a ledger: what each of its transactions says that it has written. Core types: `LedgerEntry`, which is a
record of the ledger's topic, and `Audit`. The other audits, of files and of mirrors, read both ends.
"""
