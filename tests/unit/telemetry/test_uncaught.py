"""What nobody catches is logged, without secrets."""

import gc
import logging
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from fencepost.secret.known import remember
from fencepost.telemetry.traces import log_what_nobody_catches

SECRET = "".join(("tangerine", "-", "41"))


class Broken:
    def __del__(self) -> None:
        raise ValueError(f"no {SECRET}")


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    before = threading.excepthook, sys.unraisablehook, sys.excepthook, warnings.showwarning
    remember(SECRET)
    log_what_nobody_catches()
    yield caplog
    logging.captureWarnings(False)
    threading.excepthook, sys.unraisablehook, sys.excepthook, warnings.showwarning = before


def _fail() -> None:
    raise ValueError(f"no {SECRET}")


def test_an_error_of_a_thread_is_logged_without_secrets(logged: pytest.LogCaptureFixture) -> None:
    thread = threading.Thread(target=_fail, name="reader")
    thread.start()
    thread.join()
    assert "thread reader ended with an error: Traceback" in logged.text
    assert "ValueError: no [hidden]" in logged.text
    assert SECRET not in logged.text


def test_a_thread_may_end_by_sys_exit(logged: pytest.LogCaptureFixture) -> None:
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    assert logged.text == ""


def test_an_error_of_a_finalizer_is_logged_without_secrets(logged: pytest.LogCaptureFixture) -> None:
    Broken()
    gc.collect()
    assert "ValueError: no [hidden]" in logged.text
    assert SECRET not in logged.text


def test_the_error_that_ends_the_process_is_logged_without_secrets(logged: pytest.LogCaptureFixture) -> None:
    error = ValueError(f"no {SECRET}")
    sys.excepthook(ValueError, error, None)
    assert "ValueError: no [hidden]" in logged.text
    assert SECRET not in logged.text


def test_warnings_are_logged(logged: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("something old", stacklevel=1)
    assert "py.warnings" in {record.name for record in logged.records}
