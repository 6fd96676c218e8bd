"""Planted bugs: each module, loaded with `pytest -p planted.<name>`, breaks one rule for the whole run.

`test_planted.py` runs the one test that must notice it. A module replaces what it names; where that is gone, the run
ends in an error and not in a failed test, so that a plant cannot wither unnoticed.
"""

from typing import Any


def replace(owner: Any, name: str, value: Any) -> Any:
    """Put `value` in the place of an attribute that exists, and return what was there."""
    known = owner.__dict__[name]
    setattr(owner, name, value)
    return known
