"""Avro values as Arrow columns: a batch of values of one writer's schema is decoded field by field. Pure.

`kind` gives the Arrow type of a schema, `resolution` matches a writer's schema with a reader's, `column` decodes, and
`values` is what others use.
"""
