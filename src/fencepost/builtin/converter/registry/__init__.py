"""Converters whose schemas are in a schema registry: Avro, JSON Schema and Protobuf.

`client` asks the registry, `wire` reads and writes the id in front of a value.
`converter` is what the formats share; each has a package of its own. The libraries are extras of Fencepost, imported
when a value is converted.
"""
