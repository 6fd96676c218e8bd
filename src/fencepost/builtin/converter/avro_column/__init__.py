"""Avro values as Arrow columns: a batch of values of one writer's schema is decoded field by field. Pure.

`kind` gives the Arrow type of a schema, `column` decodes, and `resolution` matches a writer's schema with a reader's:
it is what others use.
"""
