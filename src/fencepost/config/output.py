"""The output side of a stream: converters and transforms under the names of a source's, with the prefix `output.`."""

from collections.abc import Mapping

OUTPUT = "output."
CONVERTERS = ("key.converter", "value.converter", "header.converter")


def output_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a stream's output settings, without the prefix.

    A converter that is not set is the input's, with its settings.
    """
    own = {key[len(OUTPUT) :]: value for key, value in properties.items() if key.startswith(OUTPUT)}
    for name in CONVERTERS:
        if name not in own:
            own |= {key: value for key, value in properties.items() if key == name or key.startswith(f"{name}.")}
    return own
