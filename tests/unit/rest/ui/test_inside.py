"""How pages read REST's answers."""

import json
from typing import Any

import pytest

from fencepost.rest.response import to_json
from fencepost.rest.ui.inside import Answer


def read(body: bytes) -> Any:
    return Answer(200, {}, body).content


@pytest.mark.parametrize("number", [10**18, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 10**40])
def test_integers_of_any_size_are_exact(number: int) -> None:
    for value in ({"offset": number}, [1, number], [number], {"text": f"a:{number},{number}", "to": {"x": number}}):
        assert read(json.dumps(value).encode()) == value


def test_lone_surrogate_is_read_as_rest_writes_it() -> None:
    assert read(to_json({"trace": "caf\udce9"})) == {"trace": "caf\udce9"}


def test_an_answer_without_a_body_has_no_content() -> None:
    assert read(b"") is None
