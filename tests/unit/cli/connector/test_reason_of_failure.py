"""Why a connector or a task has failed, in `status` and where `apply --wait` waits."""

from fencepost.cli.connect import Access, Connect
from fencepost.cli.connector.view import await_running
from fencepost.cli.masking import Masking
from support.command_line import fencepost
from support.http_answers import Answer, Asked, HttpAnswers

TRACE = (
    'Traceback (most recent call last):\n  File "x.py", line 1\nfencepost.api.errors.FatalError: Tolerance exceeded\n'
)
STATUS = {
    "name": "broken",
    "connector": {"state": "RUNNING", "worker_id": "w:1"},
    "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": TRACE}],
    "type": "sink",
}


def worker(asked: Asked) -> Answer:
    if asked.path.endswith("/status"):
        return Answer(STATUS)
    info = {"name": "broken", "config": {"connector.class": "X"}, "tasks": [], "type": "sink"}
    if asked.path.startswith("/connectors"):
        return Answer({"broken": {"info": info, "status": STATUS}})
    return Answer([])


def test_status_shows_the_error_from_a_failed_tasks_trace() -> None:
    with HttpAnswers(worker) as served:
        ran = fencepost("status", "--url", served.url)
    assert ran.code == 0, ran.text
    assert ran.out.rstrip().endswith("w:1     Tolerance exceeded"), ran.out
    assert "Traceback" not in ran.text


def test_apply_wait_ends_with_the_error_from_a_failed_connectors_trace() -> None:
    with HttpAnswers(worker) as served, Connect(Access(served.url)) as connect:
        assert await_running(connect, {"broken": None}, 60, Masking()) == {"broken": "Tolerance exceeded"}
