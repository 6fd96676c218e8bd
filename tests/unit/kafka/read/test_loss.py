"""A tolerated loss is an error in the log."""

import logging

import pytest

from fencepost.kafka.read.loss import report_loss


def test_tolerated_loss_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    report_loss("offsets 1 to 2 of t-0", "the log ends at 1", is_error=False)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "offsets 1 to 2 of t-0: the log ends at 1" in record.getMessage()
