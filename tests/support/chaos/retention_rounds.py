"""Random rounds against topics whose records are deleted; the ledger checks the invariants."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx
from confluent_kafka import Consumer, Producer

from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.chaos.insistence import insisted
from support.chaos.retention_ledger import Ledger, Life, Presence
from support.cluster import Cluster, pause, resume
from support.log_writer import LogWriter

PARTITIONS = 2
TOPICS = 4  # the first is never deleted: a sink that runs reads it
_STEADY = 0
_LOSS_EVERY = 12  # rounds
_NOBODY_ENDS_IT_MS = 900_000  # but the test: a transaction that a broker has ended keeps nothing


@dataclass
class Outsider:
    """A group that is none of the cluster's, of one topic."""

    group: str
    life: Life
    presence: Presence
    member: Consumer | None = None


@dataclass
class Still:
    """A sink that does not run: the test commits in its name."""

    name: str
    topics: list[str]
    group: str


@dataclass
class Open:
    """A transaction that is open."""

    producer: Producer
    presence: Presence


@dataclass
class _Scene:
    stills: list[Still] = field(default_factory=list)
    outsiders: list[Outsider] = field(default_factory=list)
    opened: list[Open] = field(default_factory=list)


class Rounds:
    """Two workers and what happens to them. A context manager."""

    def __init__(self, bootstrap: str, directory: Path, drawn: random.Random, name: str) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._drawn = drawn
        self._prefix = f"rounds-{name}"
        self._scene = _Scene()
        self._writer = LogWriter(bootstrap)
        self._names = [f"{self._prefix}-{n}" for n in range(TOPICS)]
        self._sent: list[str] = []  # to the steady topic
        self._numbers = iter(range(1 << 30))
        self._done: Counter[str] = Counter()
        self._cluster = Cluster(
            bootstrap, directory, f"{self._prefix}-workers", 2,
            session_timeout_ms="2000", heartbeat_interval_ms="300", offset_flush_interval_ms="100",
            delete_committed_enabled="true", delete_committed_topics=f"{self._prefix}-[0-9]",
            delete_committed_respect_groups="waited-.*",
        )  # fmt: skip
        self._deck: list[Callable[[], None]] = []  # what comes next
        self._actions: dict[Callable[[], None], int] = {
            self._send: 6,
            self._commit: 6,
            self._everybody_commits: 8,
            self._create: 3,
            self._delete: 2,
            self._alter: 3,
            self._reset: 1,
            self._outsider_comes: 2,
            self._outsider_goes: 3,
            self._transaction_begins: 2,
            self._transaction_ends: 3,
            self._recreate: 2,
            self._pause_or_resume: 1,
        }

    def __enter__(self) -> Self:
        for topic in self._names:
            self._writer.topic(topic, PARTITIONS)
        self._lives = {topic: self._life(topic) for topic in self._names}
        self._cluster.start()
        self._leader = self._cluster.await_leader()
        self._ledger = Ledger({"bootstrap.servers": self._bootstrap}, f"{self._cluster.group}-configs")
        self._file = self._directory / "steady.txt"
        for name, file in (("steady", self._file), ("failed", Path("/nowhere/at/all"))):
            self._ledger.unbound.add("steady")
            config = {"connector.class": "FileStreamSink", "file": str(file), "topics": self._names[_STEADY]}
            insisted(lambda via: via.create(name, config), self._leader, 120)  # noqa: B023
        self._leader.wait_for_tasks("steady", "RUNNING")
        self._leader.wait_for_tasks("failed", "FAILED")
        self._scene.stills.append(Still("failed", [self._names[_STEADY]], "connect-failed"))
        for _ in range(3):
            self._create()
        return self

    def __exit__(self, *_: object) -> None:
        for outsider in self._scene.outsiders:
            if outsider.member is not None:
                outsider.member.close()
        self._cluster.stop()
        self._writer.close()

    @property
    def summary(self) -> str:
        did = ", ".join(f"{name} {count}" for name, count in sorted(self._done.items()))
        return f"{self._ledger.count} times something was given up; {did}"

    # one round

    def act(self, number: int) -> None:
        """Do something by chance; now and then a leader is killed or suspended meanwhile."""
        if number % _LOSS_EVERY == _LOSS_EVERY // 2:
            self._lose_leader(is_killed=number // _LOSS_EVERY % 3 == 2)
        else:
            self._do_something()
        if self._drawn.random() < 0.3:
            self._pass_a_round()

    def judge(self) -> None:
        """Hold the verdict over all there is so far."""
        starts = {life: self._places(self._writer.admin.offsets.starts, topic) for topic, life in self._lives.items()}
        self._ledger.judge()
        for life, found in starts.items():
            self._ledger.judge_start(life, found)

    def _do_something(self) -> None:
        if not self._deck:
            self._deck = [action for action, count in self._actions.items() for _ in range(count)]
            self._drawn.shuffle(self._deck)
        action = self._deck.pop()
        self._done[action.__name__.strip("_").replace("_", " ")] += 1
        action()

    def _lose_leader(self, *, is_killed: bool) -> None:
        """Kill the leader, or suspend it; things happen under the next one, until it is back, or wakes up."""
        lost = self._leader
        for topic in self._names:  # so that it has something to decide
            self._fill(topic, 5)
            for still in self._of(topic):
                self._advance(still, topic, is_all=True)
        self._done["leader killed" if is_killed else "leader suspended"] += 1
        lost.kill() if is_killed else pause(lost)
        self._leader = self._cluster.await_leader(lost)
        self._leads()
        for _ in range(4):
            self._do_something()
        self._pass_a_round()
        self.judge()
        if is_killed:
            lost.launch()
            return
        resume(lost)

    def _leads(self) -> None:
        """Wait until the leader decides."""
        eventually(lambda: self._rest("GET", "/retention").json()["decided"], within_s=240)

    def end(self) -> None:
        """Let everything come to its end: nothing may be left over."""
        for opened in list(self._scene.opened):
            self._end_transaction(opened)
        for outsider in list(self._scene.outsiders):
            self._let_go(outsider)
        self._rest("PUT", "/connectors/steady/resume")
        self._put(Still("all", self._names, "connect-all"), {"topics": ",".join(self._names)})
        for topic in self._names:  # one more: an offset of an older topic of the name counts once it has changed
            for is_last in (False, True):
                self._fill(topic, 1)
                for still in self._of(topic):
                    self._advance(still, topic, is_all=True)
                if not is_last:
                    self._pass_a_round()
        eventually(self._is_empty, within_s=240)
        self.judge()
        written = set(self._file.read_text().splitlines())
        assert set(self._sent) <= written, f"{len(set(self._sent) - written)} records never came to the sink that runs"
        assert self._ledger.count >= len(self._names)

    def _is_empty(self) -> bool:
        for topic in self._names:
            starts, ends = self._places(self._writer.admin.offsets.starts, topic), self._ends(topic)
            if starts != ends:
                raise AssertionError(f"{topic} {starts} {ends}: {self._rest('GET', f'/retention/{topic}').text}")
        return True

    # records

    def _send(self) -> None:
        self._fill(self._drawn.choice(self._names), self._drawn.randint(1, 20))

    def _fill(self, topic: str, count: int) -> None:
        for partition in range(PARTITIONS):
            values = [f"{topic}-{next(self._numbers)}" for _ in range(count)]
            self._writer.send(topic, values, partition)
            if topic == self._names[_STEADY]:
                self._sent += values

    def _transaction_begins(self) -> None:
        topic = self._drawn.choice(self._names[1:])
        producer = Producer({
            "bootstrap.servers": self._bootstrap, "transactional.id": f"{topic}-{next(self._numbers)}", "linger.ms": 0,
            "transaction.timeout.ms": _NOBODY_ENDS_IT_MS,
        })  # fmt: skip
        producer.init_transactions(30)
        producer.begin_transaction()
        partition = self._drawn.randrange(PARTITIONS)
        landed: list[int] = []
        for _ in range(3):
            producer.produce(topic, "open", partition=partition, on_delivery=lambda error, m: landed.append(m.offset()))
        assert producer.flush(30) == 0
        presence = self._ledger.comes("transaction", self._lives[topic], {partition: landed[0]})
        self._scene.opened.append(Open(producer, presence))
        self._everybody_commits(topic)

    def _transaction_ends(self) -> None:
        if self._scene.opened:
            self._end_transaction(self._drawn.choice(self._scene.opened))

    def _end_transaction(self, opened: Open) -> None:
        self._scene.opened.remove(opened)
        self._ledger.goes(opened.presence)
        if opened.presence.life in self._lives.values():
            self._drawn.choice([opened.producer.commit_transaction, opened.producer.abort_transaction])(30)

    # sinks

    def _of(self, topic: str) -> list[Still]:
        return [still for still in self._scene.stills if topic in still.topics]

    def _create(self) -> None:
        """Create a sink that may begin at the earliest, or goes on where one of its name was."""
        if len(self._scene.stills) >= 6:
            return
        name = f"still-{self._drawn.randrange(8)}"
        if name in {still.name for still in self._scene.stills}:
            return
        topics = self._drawn.sample(self._names, self._drawn.randint(1, 2))
        is_pattern = self._drawn.random() < 0.3
        config = {"topics.regex": "|".join(topics)} if is_pattern else {"topics": ",".join(topics)}
        group = f"connect-{name}"
        if self._drawn.random() < 0.2:
            group = config["consumer.override.group.id"] = f"own-{name}"
        for outsider in [o for o in self._scene.outsiders if o.group == group]:
            if outsider.life.topic not in topics:
                self._let_go(outsider)
                break
            self._ledger.goes(outsider.presence)
            self._scene.outsiders.remove(outsider)
        self._put(Still(name, topics, group), config)

    def _put(self, still: Still, config: dict[str, str]) -> None:
        config = {"connector.class": "FileStreamSink", "file": str(self._directory / still.name), **config}
        body = {"name": still.name, "config": config, "initial_state": "STOPPED"}
        self._rest("POST", "/connectors", 201, 409, json=body)
        self._scene.stills.append(still)

    def _delete(self) -> None:
        """Delete a sink. What it leaves are offsets of a group that is none of the cluster's; often that goes too."""
        if len(self._scene.stills) < 3:
            return
        still = self._drawn.choice(self._scene.stills[1:])
        self._scene.stills.remove(still)
        self._rest("DELETE", f"/connectors/{still.name}", 204, 404)
        read = [topic for topic in still.topics if self._ledger.at(still.group, self._lives[topic], 0)]
        if self._drawn.random() < 0.6 or len(read) != 1:
            self._forget(still.group)
            return
        self._pass_a_round()
        presence = self._ledger.comes(still.group, self._lives[read[0]])
        self._scene.outsiders.append(Outsider(still.group, self._lives[read[0]], presence))

    def _commit(self) -> None:
        still = self._drawn.choice(self._scene.stills)
        for topic in still.topics:
            self._advance(still, topic, is_all=self._drawn.random() < 0.5)

    def _everybody_commits(self, topic: str = "") -> None:
        """Let all sinks of a topic come along, so that something may go, if nothing else is against it."""
        topic = topic or self._drawn.choice(self._names)
        is_all = self._drawn.random() < 0.5
        for still in self._of(topic):
            self._advance(still, topic, is_all=is_all)
        self._pass_a_round()

    def _advance(self, still: Still, topic: str, *, is_all: bool) -> None:
        life = self._lives[topic]
        wanted = {}
        for partition, end in enumerate(self._ends(topic)):
            at = self._ledger.at(still.group, life, partition)
            wanted[partition] = end if is_all else self._drawn.randint(min(at, end), end)
            self._ledger.will_stand(still.group, life, partition, wanted[partition])
        self._set(still.group, topic, wanted)

    def _set(self, group: str, topic: str, wanted: dict[int, int]) -> None:
        offsets = GroupOffsets({"bootstrap.servers": self._bootstrap}, group)

        def done() -> bool:
            offsets.alter({TopicPartition(topic, p): at for p, at in wanted.items()})
            return True

        eventually(done, within_s=240)

    def _alter(self) -> None:
        """Move a sink back by REST, which refuses offsets below the ones that were released for deletion."""
        still = self._drawn.choice(self._scene.stills)
        if still.name == "failed":
            return
        topic, partition = self._drawn.choice(still.topics), self._drawn.randrange(PARTITIONS)
        life = self._lives[topic]
        wanted = self._drawn.randint(0, self._ends(topic)[partition])
        if wanted > self._ledger.at(still.group, life, partition):
            self._ledger.will_stand(still.group, life, partition, wanted)
        place = {"kafka_topic": topic, "kafka_partition": partition}
        body = {"offsets": [{"partition": place, "offset": {"kafka_offset": wanted}}]}
        answer = self._rest("PATCH", f"/connectors/{still.name}/offsets", 200, 400, json=body)
        self._done[f"alter {answer.status_code}"] += 1
        if answer.status_code == 200:
            self._ledger.stands(still.group, life, partition, wanted)
            self._ledger.judge()
            given_up = self._ledger.given_up[life].get(partition, 0)
            assert wanted >= given_up, f"{still.name} may begin at {wanted}, and {given_up} is given up"

    def _reset(self) -> None:
        still = self._drawn.choice(self._scene.stills)
        if still.name == "failed":
            return
        self._rest("DELETE", f"/connectors/{still.name}/offsets", 200)
        for topic in still.topics:
            for partition in range(PARTITIONS):
                self._ledger.stands(still.group, self._lives[topic], partition, 0)

    def _pause_or_resume(self) -> None:
        verb = self._drawn.choice(["pause", "resume", "stop", "resume"])
        self._rest("PUT", f"/connectors/steady/{verb}", 202, 204)

    # groups outside

    def _outsider_comes(self) -> None:
        if len(self._scene.outsiders) >= 3:
            return
        life = self._lives[self._drawn.choice(self._names)]
        kind = self._drawn.choice(["simple", "waited", "classic", "consumer"])
        group = f"{kind}-{next(self._numbers)}-{self._prefix}"
        member = self._joined(group, life.topic, kind) if kind in ("classic", "consumer") else None
        bounds = None
        if member is None:
            ends = self._ends(life.topic)
            offsets = {p: self._drawn.randint(0, end) for p, end in enumerate(ends)}
            self._set(group, life.topic, offsets)
            bounds = offsets if kind == "waited" else None
        self._pass_a_round()
        self._scene.outsiders.append(Outsider(group, life, self._ledger.comes(group, life, bounds), member))
        self._done[f"outsider {kind}"] += 1
        self._everybody_commits(life.topic)

    def _joined(self, group: str, topic: str, protocol: str) -> Consumer:
        member = Consumer({
            "bootstrap.servers": self._bootstrap, "group.id": group, "group.protocol": protocol,
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
        })  # fmt: skip
        member.subscribe([topic])
        eventually(lambda: member.poll(0.02) or member.assignment(), within_s=240)
        return member

    def _outsider_goes(self) -> None:
        if self._scene.outsiders:
            self._let_go(self._drawn.choice(self._scene.outsiders))

    def _let_go(self, outsider: Outsider) -> None:
        self._ledger.goes(outsider.presence)
        self._scene.outsiders.remove(outsider)
        if outsider.member is not None:
            outsider.member.close()
        self._forget(outsider.group)

    def _forget(self, group: str) -> None:
        offsets = GroupOffsets({"bootstrap.servers": self._bootstrap}, group)

        def done() -> bool:
            offsets.delete()
            return True

        eventually(done, within_s=240)
        for topic, life in self._lives.items():
            for partition in range(PARTITIONS):
                if self._ledger.at(group, self._lives[topic], partition):
                    self._ledger.stands(group, life, partition, 0)

    # topics

    def _recreate(self) -> None:
        """Delete a topic and create another of its name; who had committed something of it keeps that for a while."""
        topic = self._drawn.choice(self._names[1:])
        old = self._lives[topic]
        for outsider in [o for o in self._scene.outsiders if o.life == old]:
            self._let_go(outsider)
        for opened in [o for o in self._scene.opened if o.presence.life == old]:
            self._end_transaction(opened)
        self._writer.recreate(topic, PARTITIONS)
        self._lives[topic] = eventually(lambda: self._another(topic, old)) or old
        self._writer.plain.list_topics(topic, timeout=30)
        self._fill(topic, self._drawn.randint(1, 40))

    def _another(self, topic: str, old: Life) -> Life | None:
        found = self._life(topic)
        return found if found != old else None

    # what is asked

    def _life(self, topic: str) -> Life:
        described = self._writer.admin.topics.get(topic)
        assert described is not None
        return Life(topic, described.id)

    def _places(self, ask: Callable[..., dict[tuple[str, int], int]], topic: str, **how: Any) -> list[int]:
        found = ask([(topic, p) for p in range(PARTITIONS)], **how)
        return [found[topic, p] for p in range(PARTITIONS)]

    def _ends(self, topic: str) -> list[int]:
        return self._places(self._writer.admin.offsets.ends, topic, read_committed=False)

    def _pass_a_round(self) -> None:
        """Wait until a whole round has passed that began after this was called."""
        for _ in range(2):
            known = (self._decided(), None)
            eventually(partial(self._is_decided_but, known), within_s=240, every_s=0.02)

    def _is_decided_but(self, known: tuple[str | None, ...]) -> bool:
        return self._decided() not in known

    def _decided(self) -> str | None:
        found: str | None = self._rest("GET", "/retention").json()["decided"]
        return found

    def _rest(self, method: str, path: str, *codes: int, **more: Any) -> httpx.Response:
        """Ask the leader until it answers with one of these codes, by default with any that is no server's fault."""

        def answer() -> httpx.Response | None:
            found = self._leader.rest.request(method, path, **more)
            if found.status_code in codes or (not codes and found.status_code < 500):
                return found
            raise AssertionError(f"{method} {path}: {found.status_code} {found.text[:300]}")

        found = eventually(answer, within_s=240)
        assert found is not None
        return found
