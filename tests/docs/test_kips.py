"""`explanation/kips.md` names settings and classes that exist, and has a table for each proposal."""

import re
from pathlib import Path

from page import ROOT

_PAGE = (ROOT / "docs" / "explanation" / "kips.md").read_text()
_KIPS = ("KIP-618", "KIP-910", "KIP-762", "KIP-656", "KIP-447")
_VERDICTS = ("**as it says**", "**differs**", "**not here**")
_KEY = re.compile(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`")
_CLASS = re.compile(r"`([A-Z][a-z]+[A-Za-z.]+)`")
_OF_KAFKA = {"transactional.id"}
"""Settings of Kafka's clients."""
_OF_PROPOSALS = {"ConcurrentProducerCommitException", "TxnOffsetCommit"}
"""What a proposal names, and no release has under that name; requests of the protocol."""


def _source() -> str:
    return "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))


def test_readme_and_page_name_all_five_proposals() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [kip for kip in _KIPS if kip not in readme or f"\n## {kip}: " not in _PAGE] == []


def test_each_row_has_a_verdict_and_each_difference_its_reason() -> None:
    tables = re.findall(r"\| the proposal says .*\n\|.*\n((?:\|.*\n)+)", _PAGE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 60
    answers = [row.split(" | ", 1)[1] for row in rows]
    assert [answer for answer in answers if not answer.startswith(_VERDICTS)] == []
    assert [answer for answer in answers if not re.match(r"\*\*as it|\*\*[a-z ]+\*\*[a-z ]*: ", answer)] == []


def test_settings_that_the_page_names_exist() -> None:
    source, named = _source(), set(_KEY.findall(_PAGE)) - _OF_KAFKA
    assert len(named) > 10
    assert [key for key in sorted(named) if f'"{key}"' not in source] == []


def test_classes_that_the_page_names_exist() -> None:
    source = _source()
    named = {name.partition(".")[0] for name in _CLASS.findall(_PAGE)} - _OF_PROPOSALS
    assert named
    assert [name for name in sorted(named) if f"class {name}" not in source] == []


def test_text_of_proposals_is_linked_once_each() -> None:
    assert Path(ROOT, "docs/index.md").read_text().count("explanation/kips.md") == 1
    assert [kip for kip in _KIPS if _PAGE.count(f"[{kip}](https://cwiki.apache.org/") != 1] == []
