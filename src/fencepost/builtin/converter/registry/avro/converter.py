"""AvroConverter: values in Avro, with their schemas in a schema registry."""

from fencepost.builtin.converter.registry.avro.settings import AvroMapping
from fencepost.builtin.converter.registry.converter import RegistryConverter
from fencepost.builtin.converter.registry.extra import Extra
from fencepost.builtin.converter.registry.format import Format


class AvroConverter(RegistryConverter, AvroMapping):
    """Writes and reads Avro as Confluent's converter of that name does."""

    extra = Extra("avro", ("fastavro",))
    type = "AVRO"

    def format(self) -> Format:
        from fencepost.builtin.converter.registry.avro.format import AvroFormat

        return AvroFormat(self)
