"""What a plug-in says of itself: the docstring of its class."""

import inspect
import re
from typing import Any

_SENTENCE = re.compile(r"(.+?[.!?])(\s|$)", re.DOTALL)


def about(plugin: type[Any]) -> str:
    """Return the class's own docstring as paragraphs, without examples; nothing if it has none."""
    paragraphs = inspect.cleandoc(vars(plugin).get("__doc__") or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs if not each.lstrip().startswith(">>>"))


def summary(plugin: type[Any]) -> str:
    """Return the first sentence of `about`, as plain text."""
    text = about(plugin).replace("`", "")
    found = _SENTENCE.match(text)
    return text if found is None else found[1]
