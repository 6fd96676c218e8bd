"""Seeds of tests that leave something to chance."""

import pytest

from support.seed import GIVEN, new_seed


def test_every_new_seed_differs_and_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(GIVEN, raising=False)
    drawn = [new_seed() for _ in range(20)]
    assert len(set(drawn)) > 1
    assert capsys.readouterr().out.split() == [f"{GIVEN}={seed}" for seed in drawn]


def test_given_seed_is_used_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GIVEN, "17")
    assert [new_seed(), new_seed()] == [17, 17]
