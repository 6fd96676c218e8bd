"""ProtobufConverter: values as Protobuf messages, with their schemas in a schema registry."""

from fencepost.builtin.converter.registry.converter import RegistryConverter
from fencepost.builtin.converter.registry.extra import Extra
from fencepost.builtin.converter.registry.format import Format
from fencepost.builtin.converter.registry.protobuf.settings import ProtobufMapping


class ProtobufConverter(RegistryConverter, ProtobufMapping):
    """Writes and reads Protobuf as Confluent's converter of that name does."""

    extra = Extra("protobuf", ("google.protobuf", "google.type", "grpc_tools"))
    type = "PROTOBUF"

    def format(self) -> Format:
        from fencepost.builtin.converter.registry.protobuf.format import ProtobufFormat

        return ProtobufFormat(self)
