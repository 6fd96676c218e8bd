"""An audit's side of the database: one text for each value, hashes of rows by groups of keys, and rows of a group."""
