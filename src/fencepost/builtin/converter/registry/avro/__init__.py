"""Avro: its schemas as Connect's and back, and values by fastavro.

`parsing` reads a schema, `to_connect` and `from_connect` map schemas, `codec` reads and writes values.
"""
