"""Two workers under the model: requests to either, what can be seen of a connector, and figures of it all."""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from rest_model import NO_TASKS, TASK_KEYS, Generation, Model, Seen, Subject

from fencepost.testing import eventually
from support.board import Board
from support.cluster import Cluster, identity

CONNECTOR_CLASS = "model_suite.BoardConnector"
PLUGINS = Path(__file__).parent / "plugins"
_SETTLED_S = 40


class RestStage:
    """`topics` are there already. No answer may be a 5xx, nor late beyond what a request may take."""

    def __init__(self, cluster: Cluster, board: Path, topics: tuple[str, ...]) -> None:
        self.cluster, self.topics = cluster, topics
        self.board, self._directory = Board(str(board)), str(board)
        self.answers: Counter[str] = Counter()
        self.longest_s = 0.0

    @property
    def operations(self) -> int:
        return self.answers.total()

    def config(self, name: str, **settings: Any) -> dict[str, str]:
        """Return a connector's config; underscores in names of settings stand for dots."""
        own = {k.replace("_", "."): str(v) for k, v in settings.items()}
        return {"connector.class": CONNECTOR_CLASS, "board": self._directory, "name": name, **own}

    def ask(self, via: int, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request that counts."""
        began = time.monotonic()
        answer = self._send(via, method, path, **more)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.answers[f"{method} {answer.status_code}"] += 1
        print(f"{via}: {method} {path} {more.get('params', '')} {more.get('json', '')}: {answer.status_code}")
        return answer

    def _send(self, via: int, method: str, path: str, **more: Any) -> httpx.Response:
        worker = self.cluster.workers[via % len(self.cluster.workers)]
        answer = worker.rest.request(method, path, **more)
        assert answer.status_code < 500, f"{method} {path} by {identity(worker)}: {answer.status_code} {answer.text}"
        return answer

    # what is seen

    def settle(self, model: Model, restarted: Mapping[Subject, int]) -> None:
        """Wait until both workers show what the model says, and all of `restarted` were started since."""
        print("settles")
        model.expect_progress()

        def is_settled() -> bool:
            for via in range(len(self.cluster.workers)):
                self._compare(model, via)
            missed = [s for s, before in restarted.items() if self.board.starts(*s) <= before]
            assert not missed, f"not restarted: {missed}"
            return True

        eventually(is_settled, within_s=_SETTLED_S)
        model.settle(self._compare(model, 0))

    def _compare(self, model: Model, via: int) -> dict[str, Seen]:
        names = self._send(via, "GET", "/connectors").json()
        ours = set(model.traces)
        assert {n for n in names if n in ours} == set(model.connectors), f"{names} instead of {set(model.connectors)}"
        everything = {}
        for name in model.connectors:
            seen = everything[name] = self.seen(name, via)
            complaints = model.complaints(name, seen)
            assert not complaints, complaints
        for name in ours - set(model.connectors):
            for what in ("", "/config", "/status", "/tasks", "/offsets"):
                gone = self._send(via, "GET", path_of(name) + what)
                assert gone.status_code == 404, f"{name}{what}: {gone.text}"
        return everything

    def seen(self, name: str, via: int) -> Seen:
        path = path_of(name)
        info, tasks = self._json(via, path), self._json(via, f"{path}/tasks")
        status = self._json(via, f"{path}/status")
        for part in (status["connector"], *status["tasks"]):
            assert part["worker_id"] in [identity(w) for w in self.cluster.workers], part
            assert ("trace" in part) == (part["state"] == "FAILED"), part
        assert info["tasks"] == [t["id"] for t in tasks], (info, tasks)
        offsets = self._json(via, f"{path}/offsets")["offsets"]
        return Seen(
            config=info["config"],
            type=info["type"],
            state=status["connector"]["state"],
            tasks={t["id"]: t["state"] for t in status["tasks"]},
            generation=_generation([t["config"] for t in tasks]),
            offsets={o["partition"]["part"]: o["offset"]["n"] for o in offsets},
            topics=frozenset(self._json(via, f"{path}/topics")[name]["topics"]),
        )

    def _json(self, via: int, path: str) -> Any:
        answer = self._send(via, "GET", path)
        assert answer.status_code == 200, f"GET {path}: {answer.text}"
        return answer.json()

    def figures(self) -> str:
        by_kind = ", ".join(f"{kind}: {count}" for kind, count in sorted(self.answers.items()))
        return f"{self.operations} requests, the longest {self.longest_s:.2f} s; {by_kind}"


def path_of(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _generation(configs: list[dict[str, str]]) -> Generation:
    """Return what the tasks were made of, which is the same for all but their numbers."""
    if not configs:
        return NO_TASKS
    for number, config in enumerate(configs):
        assert (config["task.number"], config["task.count"]) == (str(number), str(len(configs))), configs
    common = [{k: v for k, v in config.items() if k not in TASK_KEYS} for config in configs]
    assert all(config == common[0] for config in common), configs
    return Generation(tuple(sorted(common[0].items())), len(configs))
