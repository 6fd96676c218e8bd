"""The REST life cycle by a state machine: whatever is asked in whatever order, the cluster does what the model says.

FENCEPOST_CHAOS=long runs a thousand operations by a seed of chance, FENCEPOST_SEED repeats one.
"""

import itertools
import os
import secrets
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from rest_model import PARTS, RUNNING, STOPPED, Model, Subject
from rest_scene import CONNECTOR_CLASS, PLUGINS, RestStage, path_of

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from support.cluster import Cluster
from support.long_form import IS_LONG

NAMES = ("one", "two words", "a/b%c", "dash-1")
TARGETS = {"pause": ("PAUSED", 202), "resume": (RUNNING, 202), "stop": (STOPPED, 204)}
TOPICS = 2

_examples = itertools.count()

names = st.integers(0, 2 * len(NAMES) - 1)  # the upper half stands for those that exist
workers = st.integers(0, 1)
tasks = st.integers(0, PARTS - 1)
numbers_of_tasks = st.integers(1, PARTS + 1)
offsets = st.dictionaries(st.integers(0, PARTS - 1), st.integers(0, 7), max_size=PARTS)
configs = st.fixed_dictionaries(
    {
        "tasks_max": numbers_of_tasks,
        "parts": st.integers(1, PARTS),
        "goal": st.integers(2, 6),
        "topic": st.integers(0, TOPICS - 1),
    },
    optional={"errors_log_enable": st.sampled_from(["true", "false"])},
)
INVALID: dict[str, dict[str, Any]] = {
    "no tasks": {"tasks.max": "0"},
    "many tasks": {"tasks.max": "many"},
    "no number": {"goal": "far"},
    "no transform": {"transforms": "t", "transforms.t.type": "Nonsense"},
}


class LifeCycle(RuleBasedStateMachine):
    """Names are new for each example, for offsets outlive a connector."""

    scene: ClassVar[RestStage]

    def __init__(self) -> None:
        super().__init__()
        number = next(_examples)
        self.model = Model()
        self.names = [f"{name}{number}" for name in NAMES]
        self.restarted: dict[Subject, int] = {}

    def _name(self, n: int) -> str:
        existing = sorted(self.model.connectors)
        return existing[n % len(existing)] if n >= len(NAMES) and existing else self.names[n % len(NAMES)]

    # one request

    def _ask(self, via: int, method: str, path: str, codes: set[int], **more: Any) -> Any:
        """Send it; the answer must have one of these codes. Returns the body of a good answer, True without one."""
        self.restarted.clear()  # another request may call off what was to be started
        self.model.drift()
        answer = self.scene.ask(via, method, path, **more)
        assert answer.status_code in codes, f"{method} {path}: {answer.status_code} {answer.text}, not {codes}"
        if answer.status_code < 300:
            return answer.json() if answer.content else True
        assert answer.json()["error_code"] == answer.status_code
        assert answer.json()["message"]
        return None

    def _config(self, name: str, drawn: dict[str, Any]) -> dict[str, str]:
        return self.scene.config(name, **{**drawn, "topic": self.scene.topics[drawn["topic"]]})

    def _settle(self) -> None:
        if not self.model.is_settled:
            self.scene.settle(self.model, self.restarted)
            self.restarted.clear()

    def _count(self, name: str) -> int:
        (generation,) = self.model.connectors[name].generations
        return generation.count

    # create, change, delete

    @initialize(config=configs)
    def something_to_begin_with(self, config: dict[str, Any]) -> None:
        self._create(self.names[0], 0, config, None, None)

    @rule(
        n=names,
        via=workers,
        config=configs,
        state=st.sampled_from([None, "RUNNING", "paused", "STOPPED"]),
        initial_offsets=st.one_of(st.none(), offsets),
    )
    def create(
        self, n: int, via: int, config: dict[str, Any], state: str | None, initial_offsets: dict[int, int] | None
    ) -> None:
        self._create(self.names[n % len(NAMES)], via, config, state, initial_offsets or None)

    def _create(
        self, name: str, via: int, drawn: dict[str, Any], state: str | None, moved: dict[int, int] | None
    ) -> None:
        config = self._config(name, drawn)
        body: dict[str, Any] = {"name": name, "config": config}
        if state is not None:
            body["initial_state"] = state
        if moved is not None:
            body["initial_offsets"] = _offsets_body(moved)
        codes = {409 if name in self.model.connectors else 201}
        info = self._ask(via, "POST", "/connectors", codes, json=body)
        if info:
            assert (info["name"], info["config"], info["tasks"], info["type"]) == (name, config, [], "source")
            self.model.create(name, config, state.upper() if state else None, moved)

    @rule(n=names, via=workers, config=configs)
    def put(self, n: int, via: int, config: dict[str, Any]) -> None:
        name, wanted = self._name(n), self._config(self._name(n), config)
        is_there = name in self.model.connectors
        before = self._count(name) if is_there and self.model.is_settled else None
        info = self._ask(via, "PUT", f"{path_of(name)}/config", {200 if is_there else 201}, json=wanted)
        assert (info["name"], info["config"]) == (name, wanted)
        assert before is None or len(info["tasks"]) == before, "the tasks from before the change"
        self.model.configure(name, wanted)

    @rule(n=names, via=workers)
    def put_the_same_again(self, n: int, via: int) -> None:
        """The connector is started again, its tasks are left alone."""
        name = self._name(n)
        connector = self.model.connectors.get(name)
        if connector is None:
            return
        self._settle()
        before = {s: self.scene.board.starts(*s) for s in self._running(name)}
        self._ask(via, "PUT", f"{path_of(name)}/config", {200}, json=connector.config)
        self.model.configure(name, connector.config)
        self.restarted = {s: n for s, n in before.items() if s[1] is None}
        self._settle()
        if (name, None) not in self.model.broken:
            assert {s: self.scene.board.starts(*s) for s in before if s[1] is not None} == {
                s: n for s, n in before.items() if s[1] is not None
            }

    @rule(n=names, via=workers, count=numbers_of_tasks)
    def rescale(self, n: int, via: int, count: int) -> None:
        self._patch(self._name(n), via, {"tasks.max": str(count)})

    @rule(n=names, via=workers, goal=st.integers(2, 6), is_logged=st.sampled_from(["true", None]))
    def patch(self, n: int, via: int, goal: int, is_logged: str | None) -> None:
        self._patch(self._name(n), via, {"goal": str(goal), "errors.log.enable": is_logged})

    def _patch(self, name: str, via: int, change: dict[str, str | None]) -> None:
        info = self._ask(via, "PATCH", f"{path_of(name)}/config", self.model.known(name, 200), json=change)
        if info:
            merged = {**self.model.connectors[name].config, **change}
            wanted = {key: value for key, value in merged.items() if value is not None}
            assert info["config"] == wanted
            self.model.configure(name, wanted)

    @rule(n=names, via=workers, fault=st.sampled_from(sorted(INVALID)), how=st.sampled_from(["POST", "PUT", "PATCH"]))
    def ask_for_what_is_invalid(self, n: int, via: int, fault: str, how: str) -> None:
        name = self._name(n)
        if how == "PATCH":
            codes = self.model.known(name, 400)
            self._ask(via, "PATCH", f"{path_of(name)}/config", codes, json=INVALID[fault])
            return
        config = self.scene.config(name, parts=1, goal=2, topic=self.scene.topics[0]) | INVALID[fault]
        if how == "PUT":
            self._ask(via, "PUT", f"{path_of(name)}/config", {400}, json=config)
        else:
            codes = {400, 409} if name in self.model.connectors else {400}
            self._ask(via, "POST", "/connectors", codes, json={"name": name, "config": config})

    @rule(n=names, via=workers)
    def name_it_otherwise(self, n: int, via: int) -> None:
        config = self.scene.config("another", parts=1, goal=2, topic=self.scene.topics[0])
        self._ask(via, "PUT", f"{path_of(self._name(n))}/config", {400}, json=config)

    @rule(n=names, via=workers)
    def delete(self, n: int, via: int) -> None:
        name = self._name(n)
        if self._ask(via, "DELETE", path_of(name), self.model.known(name, 204)):
            self.model.delete(name)

    # target states, restarts

    @rule(n=names, via=workers, verb=st.sampled_from(sorted(TARGETS)))
    def aim(self, n: int, via: int, verb: str) -> None:
        target, good = TARGETS[verb]
        name = self._name(n)
        if self._ask(via, "PUT", f"{path_of(name)}/{verb}", self.model.known(name, good)):
            self.model.aim(name, target)

    @rule(n=names, via=workers, tasks_too=st.booleans(), only_failed=st.booleans())
    def restart(self, n: int, via: int, tasks_too: bool, only_failed: bool) -> None:
        self._restart(self._name(n), via, tasks_too, only_failed)

    def _restart(self, name: str, via: int, tasks_too: bool, only_failed: bool) -> None:
        chosen = self._chosen(name, tasks_too, only_failed) if self.model.is_settled else {}
        flags = {"includeTasks": str(tasks_too).lower(), "onlyFailed": str(only_failed)}  # Java takes both spellings
        is_plain = not tasks_too and not only_failed
        codes = self.model.known(name, 204) if is_plain else self.model.restart_codes(name)
        was_settled = self.model.is_settled
        answer = self._ask(via, "POST", f"{path_of(name)}/restart", codes, params=flags)
        if answer and was_settled:
            if not is_plain:
                self._has_restarting(name, answer, tasks_too, only_failed)
            self.restarted = chosen
        self.model.is_settled = self.model.is_settled and not answer

    def _chosen(self, name: str, tasks_too: bool, only_failed: bool) -> dict[Subject, int]:
        """Return what a restart is to start, with the starts so far."""
        running = self._running(name)
        subjects = [s for s in running if s[1] is None or tasks_too]
        if only_failed:
            subjects = [s for s in subjects if s in self.model.broken]
        return {s: self.scene.board.starts(*s) for s in subjects}

    def _running(self, name: str) -> list[Subject]:
        connector = self.model.connectors.get(name)
        if connector is None or connector.target != RUNNING:
            return []
        return [(name, None), *((name, task) for task in range(self._count(name)))]

    def _has_restarting(self, name: str, answer: dict[str, Any], tasks_too: bool, only_failed: bool) -> None:
        """Check that the answer has RESTARTING for exactly what will be restarted (KIP-745)."""
        states = {None: answer["connector"]["state"]} | {t["id"]: t["state"] for t in answer["tasks"]}
        for task, state in states.items():
            may_fail = (name, task) in self.model.broken
            is_chosen = (task is None or tasks_too) and not only_failed
            if not (only_failed and may_fail):  # it may have failed before it was paused
                assert (state == "RESTARTING") == is_chosen, (task, answer)

    @rule(n=names, via=workers, task=tasks)
    def restart_task(self, n: int, via: int, task: int) -> None:
        self._restart_task(self._name(n), via, task)

    def _restart_task(self, name: str, via: int, task: int) -> None:
        subject = (name, task)
        is_due = self.model.is_settled and subject in self._running(name)
        before = self.scene.board.starts(*subject)
        codes = self.model.task_restart_codes(name, task)
        if self._ask(via, "POST", f"{path_of(name)}/tasks/{task}/restart", codes):
            if is_due:
                self.restarted = {subject: before}
            self.model.is_settled = False

    # what fails, and is mended

    @rule(n=names, task=tasks)
    def break_a_task(self, n: int, task: int) -> None:
        self._settle()
        self.scene.board.set_broken(self._name(n), task, is_broken=True)
        self.model.broken.add((self._name(n), task))
        self.model.is_settled = False
        self._settle()

    @rule(n=names, via=workers)
    def break_a_connector(self, n: int, via: int) -> None:
        name = self._name(n)
        self._settle()
        self.scene.board.set_broken(name, None, is_broken=True)
        self.model.broken.add((name, None))
        self._restart(name, via, False, False)
        self._settle()

    @precondition(lambda self: self.model.broken)
    @rule(choice=st.integers(0, 9), via=workers, how=st.sampled_from(["alone", "failed", "all"]))
    def mend(self, choice: int, via: int, how: str) -> None:
        """Restart what has failed; until then it stays so."""
        self._settle()
        broken = sorted(self.model.broken, key=str)
        name, task = subject = broken[choice % len(broken)]
        failed = subject in self._running(name)
        before = self.scene.board.starts(*subject)
        self.scene.board.set_broken(name, task, is_broken=False)
        if name in self.model.connectors:
            self._restart_what_was_broken(name, task, via, how)
        self.model.broken.discard(subject)
        self.restarted = {subject: before} if failed else {}
        self._settle()

    def _restart_what_was_broken(self, name: str, task: int | None, via: int, how: str) -> None:
        if how != "alone":
            self._restart(name, via, task is not None, how == "failed")
        elif task is None:
            self._restart(name, via, False, False)
        else:
            self._restart_task(name, via, task)

    # offsets, topics, questions

    @rule(n=names, via=workers, moved=offsets)
    def alter_offsets(self, n: int, via: int, moved: dict[int, int]) -> None:
        name = self._name(n)
        codes = self.model.offsets_codes(name) if moved else {400}
        if not moved and name not in self.model.connectors:
            codes = {400, 404}
        body = {"offsets": _offsets_body(moved)}
        answer = self._ask(via, "PATCH", f"{path_of(name)}/offsets", codes, json=body)
        if answer:
            assert answer["message"] == "The offsets for this connector have been altered successfully"
            self.model.move(name, moved)
            self._has_offsets(name, via, moved)

    @rule(n=names, via=workers)
    def reset_offsets(self, n: int, via: int) -> None:
        name = self._name(n)
        answer = self._ask(via, "DELETE", f"{path_of(name)}/offsets", self.model.offsets_codes(name))
        if answer:
            assert answer["message"] == "The offsets for this connector have been reset successfully"
            self.model.move(name, dict.fromkeys(range(PARTS), 0))
            self._has_offsets(name, via, dict.fromkeys(range(PARTS), 0))

    def _has_offsets(self, name: str, via: int, wanted: dict[int, int]) -> None:
        found = self._ask(via, "GET", f"{path_of(name)}/offsets", {200})["offsets"]
        at = {one["partition"]["part"]: one["offset"]["n"] for one in found}
        assert {part: at.get(part, 0) for part in wanted} == wanted

    @rule(n=names, via=workers, moved=st.one_of(st.none(), offsets.filter(bool)), resumes=st.booleans())
    def stop_and_move_offsets(self, n: int, via: int, moved: dict[int, int] | None, resumes: bool) -> None:
        self._settle()
        self.aim(n, via, "stop")
        if moved is None:
            self.reset_offsets(n, via + 1)
        else:
            self.alter_offsets(n, via + 1, moved)
        if resumes:
            self.aim(n, via, "resume")

    @rule(n=names, via=workers, starts_again=st.booleans())
    def reset_topics(self, n: int, via: int, starts_again: bool) -> None:
        name = self._name(n)
        self._settle()
        self._ask(via, "PUT", f"{path_of(name)}/topics/reset", {202})
        self.model.forget_topics(name)
        if starts_again:
            self._restart(name, via, True, False)
        self.model.is_settled = False
        self._settle()

    @rule(n=names, via=workers, what=st.sampled_from(["", "/config", "/tasks", "/offsets"]))
    def look(self, n: int, via: int, what: str) -> None:
        name = self._name(n)
        self._ask(via, "GET", path_of(name) + what, self.model.known(name, 200))

    @rule(via=workers, config=configs, fault=st.sampled_from([None, *sorted(INVALID)]))
    def validate(self, via: int, config: dict[str, Any], fault: str | None) -> None:
        wanted = self._config("validated", config) | (INVALID[fault] if fault else {})
        path = f"/connector-plugins/{CONNECTOR_CLASS}/config/validate"
        answer = self._ask(via, "PUT", path, {200}, json=wanted)
        assert (answer["error_count"] > 0) == (fault is not None), answer
        wanted.pop("connector.class")
        self._ask(via, "PUT", path, {400}, json=wanted)

    @rule()
    def settle(self) -> None:
        self._settle()

    def teardown(self) -> None:
        self.model.drift()
        for name in list(self.model.connectors):
            self._ask(0, "DELETE", path_of(name), {204})
            self.model.delete(name)
        self._settle()


def _offsets_body(moved: dict[int, int]) -> list[dict[str, Any]]:
    """Return the body; 0 means no offset."""
    return [{"partition": {"part": part}, "offset": {"n": n} if n else None} for part, n in moved.items()]


@pytest.fixture(scope="module")
def scene(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestStage]:
    group = f"model-{uuid.uuid4().hex[:6]}"
    topics = tuple(f"{group}-{n}" for n in range(TOPICS))
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for topic in topics:
        admin.topics.create(topic, partitions=1, replication=1)
    with Cluster(
        kafka.bootstrap_servers,
        tmp_path_factory.mktemp("model"),
        group,
        2,
        plugin_path=str(PLUGINS),
        slots_max="2",
        inter_worker_key_ttl_ms="1000",
    ) as cluster:
        cluster.start()
        yield RestStage(cluster, tmp_path_factory.mktemp("board"), topics)


@pytest.mark.timeout(3600 if IS_LONG else 1800)
def test_cluster_answers_random_requests_as_the_model_predicts(scene: RestStage) -> None:
    examples, steps = (60, 40) if IS_LONG else (8, 18)  # many: each has some of the rules only
    number = int(os.environ.get("FENCEPOST_SEED") or (secrets.randbelow(2**32) if IS_LONG else 1))
    print(f"FENCEPOST_SEED={number}")
    machine = seed(number)(type("Seeded", (LifeCycle,), {"scene": scene}))
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # what depends on time does not shrink
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    run_state_machine_as_test(machine, settings=chosen)
    print(scene.figures())
    assert scene.operations >= (1000 if IS_LONG else 55)
