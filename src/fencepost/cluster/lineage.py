"""Where connectors read from and write to: the bodies of `/lineage` and `/connectors/C/lineage`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, WithJsonSchema


@dataclass(frozen=True, slots=True)
class LineageEnd:
    """A topic, a pattern of topics of which none is known yet, or something outside of Kafka."""

    __pydantic_config__ = ConfigDict(json_schema_serialization_defaults_required=True)

    type: Annotated[str, WithJsonSchema({"enum": ["topic", "pattern", "external"], "type": "string"})]
    name: Annotated[str, Field(description="Of something external: a path, a URL, or a system and its address.")]
    cluster: Annotated[
        str | None, Field(description="The alias of the Kafka cluster, of mirrors; null: that of the workers.")
    ] = None


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a connector reads and writes."""

    name: str
    kind: Annotated[str, WithJsonSchema({"enum": ["source", "sink", "stream", "mirror", "unknown"], "type": "string"})]
    reads: Sequence[LineageEnd]
    writes: Sequence[LineageEnd]
