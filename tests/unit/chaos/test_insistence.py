"""What a test asks of a cluster again, and what it does not put up with."""

import httpx
import pytest

from fencepost.cluster.errors import WriteFailedError
from support.chaos.insistence import insisted
from support.cluster import LightWorker


@pytest.fixture
def worker(tmp_path):
    return LightWorker("127.0.0.1:1", tmp_path)


def saying(*answers: tuple[int, str]):
    """Return a request that is answered like this, one after the other."""
    left = iter(answers)

    def ask(via) -> httpx.Response:
        status, text = next(left)
        return httpx.Response(status, text=text, request=httpx.Request("POST", "http://127.0.0.1/connectors"))

    return ask


def test_temporary_refusal_is_retried_and_printed(worker, capsys):
    slow = (500, "Request timed out. The worker is starting the connector")
    refusals = insisted(saying((409, "a rebalance"), (503, "not ready"), slow, (201, "")), worker, 60)
    assert refusals == ["409 a rebalance", "503 not ready", f"500 {slow[1]}"]
    assert "POST /connectors was refused 3 times" in capsys.readouterr().out


@pytest.mark.parametrize("answer", [(500, "cannot be carried out"), (500, WriteFailedError.TEXT), (400, "no")])
def test_server_error_is_not_retried(worker, answer):
    with pytest.raises(AssertionError, match=answer[1].split(";")[0]):
        insisted(saying(answer, (201, "")), worker, 60)


def test_failed_write_is_retried_only_while_the_leader_is_hurt(worker):
    failed = (500, WriteFailedError.TEXT)
    assert len(insisted(saying(failed, (201, "")), worker, 60, is_hurt=True)) == 1
    with pytest.raises(AssertionError, match="cannot be carried out"):
        insisted(saying((500, "cannot be carried out")), worker, 60, is_hurt=True)
