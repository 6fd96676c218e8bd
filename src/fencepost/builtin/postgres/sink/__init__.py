"""PostgresSink: topics as tables of Postgres, each record exactly once.

Rows, offsets and fencing token are in one transaction of the database (decision 0122).
"""
