"""The ledger: what each transaction of a source says that it has written, and the audit that compares it with the log.

Core types: `LedgerEntry`, which is a record of the ledger's topic, and `Audit`.
"""
