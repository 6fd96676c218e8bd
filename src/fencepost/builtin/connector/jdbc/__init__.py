"""Rows of a database that Spark reads by JDBC: which ranges of rows are complete, and how each is read."""
