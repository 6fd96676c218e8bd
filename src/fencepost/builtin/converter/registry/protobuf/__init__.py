"""Protobuf: its messages as Connect's structs and back.

`compiling` makes descriptors of a schema's text and the reverse, `schema` maps schemas, and `converter` converts
values.
"""
