"""JsonSchemaConverter: values in JSON, with their JSON Schema in a schema registry."""

from fencepost.builtin.converter.registry.converter import RegistryConverter
from fencepost.builtin.converter.registry.extra import Extra
from fencepost.builtin.converter.registry.format import Format
from fencepost.builtin.converter.registry.json_schema.settings import JsonSchemaMapping


class JsonSchemaConverter(RegistryConverter, JsonSchemaMapping):
    """Writes and reads JSON as Confluent's converter of that name does."""

    extra = Extra("json-schema", ("jsonschema",))
    type = "JSON"

    def format(self) -> Format:
        from fencepost.builtin.converter.registry.json_schema.format import JsonSchemaFormat

        return JsonSchemaFormat(self)
