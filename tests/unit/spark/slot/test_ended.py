"""Which signal ended a process that could say nothing itself."""

import pytest

from fencepost.spark.slot.job import ProcessEnds, signal_of

GONE = "Python worker exited unexpectedly (crashed)"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{GONE}: Fatal Python error: Segmentation fault", "SIGSEGV"),
        (f"{GONE}: Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):", "SIGSEGV"),
        (f"{GONE}: Fatal Python error: Aborted", "SIGABRT"),
        (f"{GONE}: Fatal Python error: Bus error", "SIGBUS"),
        (GONE, "SIGKILL"),
        ("ValueError: no such table", None),
        ("ValueError: Fatal Python error: Segmentation fault", None),
        ("silent for longer than its lease", None),
    ],
)
def test_signal_is_read_from_the_fault_handler_and_is_sigkill_without_it(text: str, name: str | None) -> None:
    assert signal_of(RuntimeError(text)) == name


def test_only_process_ends_by_signal_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    ends = ProcessEnds()
    for error in (RuntimeError(GONE), RuntimeError(GONE), RuntimeError(f"{GONE}: Fatal Python error: Aborted")):
        ends.record("slot s", error)
    assert ends.record("slot t", RuntimeError("no such table")) is None
    assert ends.record("slot u", None) is None
    assert ends.counts() == {"SIGKILL": 2, "SIGABRT": 1}
    assert "the process of slot s was ended by SIGABRT" in caplog.text
    assert "slot t" not in caplog.text
