"""The way out of a stream: converters and transforms by the names that a source's have, behind `output.`."""

from collections.abc import Mapping

OUTPUT = "output."
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


def output_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what a stream's config says of its way out, without the prefix.

    A converter that it does not name is that of the way in, with its settings.
    """
    own = {key[len(OUTPUT) :]: value for key, value in properties.items() if key.startswith(OUTPUT)}
    for name in _CONVERTERS:
        if name not in own:
            own |= {key: value for key, value in properties.items() if key == name or key.startswith(f"{name}.")}
    return own
