"""Apicurio's converters in Java, as a plug-in."""

from fencepost.builtin.java.port import Location
from support.maven_plugin import fetched


def apicurio_converter() -> Location:
    directory = fetched("io.apicurio", ("apicurio-registry-utils-converter",), "2.6.13.Final")
    return Location(str(directory), tuple(sorted(map(str, directory.glob("*.jar")))))
