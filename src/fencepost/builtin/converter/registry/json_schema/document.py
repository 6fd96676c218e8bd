"""JSON Schemas that refer to parts of themselves and to other schemas."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.api import RecordError
from fencepost.builtin.converter.registry.client import WrittenSchema

_MOST_REFERENCES = 100  # one to the next


@dataclass(frozen=True, eq=False)
class Document:
    """A schema's JSON, and the documents that it may refer to by name."""

    root: Any
    others: "Mapping[str, Document]" = field(default_factory=dict)

    @classmethod
    def of(cls, schema: WrittenSchema, referenced: Mapping[str, WrittenSchema]) -> "Document":
        """Return the document of a schema. Raises RecordError if a text is no JSON."""
        others: dict[str, Document] = {}
        for name, other in referenced.items():
            others[name] = cls(_json(other.text), others)
        return cls(_json(schema.text), others)

    def resolved(self, node: Any) -> "tuple[Any, Document]":
        """Return what a node with `$ref` refers to, and the document that it is in. Raises RecordError."""
        document: Document = self
        for _ in range(_MOST_REFERENCES):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node, document
            node, document = document._target(node["$ref"])
        raise RecordError(f"The JSON Schema refers to itself without a type: {str(node)[:200]}")

    def _target(self, reference: str) -> "tuple[Any, Document]":
        name, _, pointer = reference.partition("#")
        document = self if not name else self._named(name)
        node = document.root
        for step in pointer.split("/")[1:] if pointer else ():
            step = step.replace("~1", "/").replace("~0", "~")
            node = node[int(step)] if isinstance(node, list) and step.isdigit() else _member(node, step, reference)
        return node, document

    def _named(self, name: str) -> "Document":
        if isinstance(self.root, dict) and self.root.get("$id") == name:
            return self
        for known, document in self.others.items():
            if name == known or (isinstance(document.root, dict) and document.root.get("$id") == name):
                return document
        raise RecordError(f"The JSON Schema refers to {name}, which is none of its references in the schema registry")


def _member(node: Any, step: str, reference: str) -> Any:
    if isinstance(node, dict) and step in node:
        return node[step]
    raise RecordError(f"The JSON Schema refers to {reference}, which is not there")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"The schema is not valid JSON Schema, because it is not JSON ({error}): {text[:200]}"
        ) from error
