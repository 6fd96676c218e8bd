"""Seeds of tests that leave something to chance."""

import pytest

from support.seed import GIVEN, new_seed


def test_each_draw_is_another_one_and_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(GIVEN, raising=False)
    drawn = [new_seed() for _ in range(20)]
    assert len(set(drawn)) > 1
    assert capsys.readouterr().out.split() == [f"{GIVEN}={seed}" for seed in drawn]


def test_a_seed_that_is_given_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GIVEN, "17")
    assert [new_seed(), new_seed()] == [17, 17]
