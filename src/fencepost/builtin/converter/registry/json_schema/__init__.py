"""JSON Schema: its schemas as Connect's and back, and values as JSON.

`document` resolves references, `to_connect` and `from_connect` map schemas, `encoding` and `decoding` convert values.
"""
