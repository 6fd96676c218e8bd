"""Reads YAML as keys and texts."""

from typing import Any

import yaml


class _TextLoader(yaml.BaseLoader):  # type: ignore[misc]
    """Every scalar is a text, as it is written: `010`, `no`."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        double = next((key for key in keys if keys.count(key) > 1), None)
        if double is not None:
            raise ValueError(f"line {node.start_mark.line + 1}: {double}: the key is there twice")
        return dict(super().construct_mapping(node, deep))


def read_yaml(text: str) -> list[Any]:
    """Return the documents of a text. Raises ValueError, which names the line."""
    try:
        return [each for each in yaml.load_all(text, Loader=_TextLoader) if each not in (None, "")]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from None
