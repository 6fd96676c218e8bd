"""What a conformance class says of a connector, check by check."""

import re
import unittest
from typing import Any


def verdicts(of: type[Any]) -> dict[str, str]:
    """Return, for each check of a conformance class, `passed`, `skipped`, or what it said when it failed.

    Errors other than AssertionErrors are raised: a check has to say what is wrong in its own words.
    """
    found = {}
    for name in sorted(dir(of)):
        if name.startswith("test_"):
            try:
                getattr(of(), name)()
                found[name] = "passed"
            except unittest.SkipTest:
                found[name] = "skipped"
            except AssertionError as error:
                found[name] = str(error)
    return found


def failed(of: type[Any]) -> dict[str, str]:
    """Return the checks that failed, with what they said."""
    return {name: said for name, said in verdicts(of).items() if said not in ("passed", "skipped")}


def ensure_only(check: str, said: str, suite: type[Any], made: type[Any]) -> None:
    """Check that one check of a conformance class fails for a connector, in words that `said` matches, and no other."""

    class Faulty(suite):  # type: ignore[misc]
        connector = made

    found = failed(Faulty)
    assert list(found) == [check]
    assert re.search(said, found[check], re.DOTALL), found[check]
