"""JSON of commands: as a program reads it, and safe for a terminal."""

import json

import pytest

from fencepost.cli.output import Output, Printer, print_json


def test_json_output_escapes_characters_that_control_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"kéy": "a\x9b31m\x7f\x1b[0m\u202eb\u2028"}
    print_json(data)
    Printer(Output.JSON).data(data)
    text = capsys.readouterr().out
    first, _, rest = text.partition("\n")
    assert [json.loads(first), json.loads(rest)] == [data, data]
    assert text.replace("\n", "").isprintable()
    assert "kéy" in text


def test_json_output_writes_a_lone_surrogate(capsys: pytest.CaptureFixture[str]) -> None:
    print_json("\udc80")
    assert capsys.readouterr().out == '"\\udc80"\n'
