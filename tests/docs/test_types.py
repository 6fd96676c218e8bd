"""The classes of the pages pass `mypy --strict`, as an author's would."""

from pathlib import Path

from mypy import api
from page import ROOT, blocks


def test_the_classes_of_the_pages_pass_a_strict_check_of_types(tmp_path: Path) -> None:
    found = [block.text for block in blocks("python") if "\nclass " in block.text]
    assert len(found) > 10
    names = []
    for number, text in enumerate(found):
        name = tmp_path / f"example_{number}.py"
        name.write_text(text)
        names.append(str(name))
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'docs'}"]
    told, _, _ = api.run([*options, *names])
    assert told.startswith("Success"), told
