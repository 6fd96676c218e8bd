"""Protobuf: its messages as Connect's structs and back.

`compiling` makes descriptors of a schema's text and the reverse, `to_connect` and `from_connect` map schemas, `codec`
converts values.
"""
