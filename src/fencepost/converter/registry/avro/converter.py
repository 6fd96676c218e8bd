"""AvroConverter: values in Avro, with their schemas in a schema registry."""

from fencepost.converter.registry.avro.settings import AvroMapping
from fencepost.converter.registry.converter import RegistryConverter
from fencepost.converter.registry.extra import Extra
from fencepost.converter.registry.format import Format


class AvroConverter(RegistryConverter, AvroMapping):
    """Writes and reads Avro as Confluent's converter of that name does."""

    extra = Extra("avro", ("fastavro",))
    type = "AVRO"

    def format(self) -> Format:
        from fencepost.converter.registry.avro.format import AvroFormat

        return AvroFormat(self)
