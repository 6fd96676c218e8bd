"""Questions to other workers: which are waited for, and what is kept of those that are not."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fencepost.kafka.group.group_admin import Group
from fencepost.storage.change import SessionKey
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from fencepost.worker.membership.peers import LateClient, Peers, Questions


class Others:
    """Two workers that answer: one at once, and one that is stopped until `goes_on` is set."""

    def __init__(self, quick: str, stopped: str) -> None:
        self.urls = (quick, stopped)
        self.snapshot = ClusterSnapshot(
            incarnations=dict.fromkeys(self.urls, "i"), session_key=SessionKey(b"k" * 32, "HmacSHA256", 0)
        )

    @property
    def is_leading(self) -> bool:
        return False


@contextmanager
def worker(goes_on: threading.Event) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            goes_on.wait(60)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        goes_on.set()
        server.shutdown()
        server.server_close()


def test_late_worker_is_forgotten_once_its_request_has_ended() -> None:
    runs, goes_on = threading.Event(), threading.Event()
    runs.set()
    with worker(runs) as quick, worker(goes_on) as stopped:
        others = Others(quick, stopped)
        peers = Peers("http://here", lambda: Group("g", "Stable", ()), others, others)
        questions = Questions(peers, "HmacSHA256", LateClient())
        eventually(lambda: questions.ask([quick], "/figures", 5.0) == {quick: b"ok"}, within_s=60)
        assert questions.ask([stopped], "/figures", 0.01) == {}
        assert questions._late.keys() == {stopped}
        goes_on.set()  # and then it leaves: nobody asks it again
        eventually(lambda: questions.ask([], "/figures", 0.01) == {} and not questions._late, within_s=60)
