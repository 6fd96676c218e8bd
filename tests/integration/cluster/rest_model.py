"""What the REST API makes of connectors, as Kafka Connect has it: a model to hold a cluster against.

What goes on by itself, tasks that are published and records that are sent, is a range in the model until it is looked
at: `drift` widens it by all that may have happened meanwhile, `settle` narrows it to what was seen, which has to lie
within. The connectors are `BoardConnector`s.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

RUNNING, PAUSED, STOPPED, FAILED = "RUNNING", "PAUSED", "STOPPED", "FAILED"
PARTS = 4
TASK_KEYS = ("task.number", "task.count", "task.class")

Config = dict[str, str]
Subject = tuple[str, int | None]
"""A connector's name with the number of a task, or None: the connector itself."""


@dataclass(frozen=True)
class Generation:
    """Tasks that were published at once, and the connector's config that they were made of."""

    config: tuple[tuple[str, str], ...] = ()
    count: int = 0

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "Generation":
        count = min(int(config.get("tasks.max", "1")), int(config["parts"]))
        return cls(tuple(sorted(config.items())), count)

    @property
    def settings(self) -> Config:
        return dict(self.config)

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield each source partition with the task that has it, and how far it is counted."""
        for part in range(int(self.settings.get("parts", "0"))):
            yield part, part % self.count, int(self.settings["goal"])


NO_TASKS = Generation()


@dataclass
class Connector:
    """`generations` are those that may have been published last."""

    config: Config
    target: str = RUNNING
    generations: set[Generation] = field(default_factory=lambda: {NO_TASKS})


@dataclass
class Traces:
    """What remains of a name: ranges of offsets by source partition (0: none), and topics."""

    offsets: dict[int, tuple[int, int]] = field(default_factory=lambda: dict.fromkeys(range(PARTS), (0, 0)))
    topics: set[str] = field(default_factory=set)
    may_be_topics: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Seen:
    """One connector, as REST shows it."""

    config: Config
    type: str
    state: str
    tasks: Mapping[int, str]
    generation: Generation
    offsets: Mapping[int, int]
    topics: frozenset[str]


class Model:
    """Operations come in pairs: the status codes that may be answered, and what follows from a good one."""

    def __init__(self) -> None:
        self.connectors: dict[str, Connector] = {}
        self.traces: dict[str, Traces] = {}
        self.broken: set[Subject] = set()
        self.is_settled = True

    # what may be answered

    def known(self, name: str, good: int, absent: int = 404) -> set[int]:
        return {good if name in self.connectors else absent}

    def restart_codes(self, name: str) -> set[int]:
        codes = self.known(name, 202)
        return codes if self.is_settled else codes | {404}  # no status yet

    def task_restart_codes(self, name: str, task: int) -> set[int]:
        connector = self.connectors.get(name)
        if connector is None:
            return {404}
        if not self.is_settled:
            return {204, 404, 409}
        if connector.target == STOPPED:
            return {409}
        (generation,) = connector.generations
        return {204 if task < generation.count else 404}

    def offsets_codes(self, name: str) -> set[int]:
        connector = self.connectors.get(name)
        if connector is None:
            return {404}
        return {200 if connector.target == STOPPED else 400}

    # what follows

    def create(self, name: str, config: Config, state: str | None, offsets: Mapping[int, int] | None) -> None:
        self.connectors[name] = Connector(config, state or RUNNING)
        self.traces.setdefault(name, Traces())
        if offsets is not None:
            self.move(name, {part: offsets.get(part, 0) for part in range(PARTS)})
        self.is_settled = False

    def configure(self, name: str, config: Config) -> None:
        if name in self.connectors:
            self.connectors[name].config = config
            self.is_settled = False
        else:
            self.create(name, config, None, None)

    def delete(self, name: str) -> None:
        del self.connectors[name]
        self.forget_topics(name)
        self.is_settled = False

    def aim(self, name: str, target: str) -> None:
        connector = self.connectors[name]
        connector.target = target
        if target == STOPPED:
            connector.generations = {NO_TASKS}
        self.is_settled = False

    def move(self, name: str, offsets: Mapping[int, int]) -> None:
        self.traces[name].offsets.update({part: (n, n) for part, n in offsets.items()})

    def forget_topics(self, name: str) -> None:
        """Forget the topics. They may come back: slots report written topics a heartbeat later."""
        traces = self.traces.setdefault(name, Traces())
        traces.may_be_topics |= traces.topics
        traces.topics = set()

    # what goes on by itself

    def drift(self) -> None:
        """Widen by what may have happened since the last look."""
        for name, connector in self.connectors.items():
            if self.is_settled or connector.target != RUNNING:
                continue
            if self._publishes(name):
                connector.generations.add(Generation.of(connector.config))
            for generation in connector.generations:
                self._count(self.traces[name], generation)

    def _count(self, traces: Traces, generation: Generation) -> None:
        for part, _, goal in generation.parts():
            low, high = traces.offsets[part]
            if low < goal:
                traces.offsets[part] = low, max(high, goal)
                traces.may_be_topics.add(generation.settings["topic"])

    def _publishes(self, name: str) -> bool:
        return self.connectors[name].target == RUNNING and (name, None) not in self.broken

    def expect_progress(self) -> None:
        """Note the topics of records that are certain to come. To be called once, before `complaints`."""
        for name, connector in self.connectors.items():
            if self._publishes(name):
                generation = Generation.of(connector.config)
                for part, task, goal in generation.parts():
                    if self.traces[name].offsets[part][1] < goal and (name, task) not in self.broken:
                        self.traces[name].topics.add(generation.settings["topic"])
        self.drift()

    # what is seen

    def complaints(self, name: str, seen: Seen | None) -> list[str]:
        """Say what cannot be, once everything has come to rest."""
        connector = self.connectors.get(name)
        if connector is None or seen is None:
            return [] if connector is seen else [f"{name}: expected {connector}, seen {seen}"]
        found = []
        for what, wanted, is_right in (
            ("config", connector.config, seen.config == connector.config),
            ("type", "source", seen.type == "source"),
            ("task configs", self._generations(name), seen.generation in self._generations(name)),
            ("state", self._state(name), seen.state == self._state(name)),
            ("task states", "by number", self._has_task_states(name, seen)),
            ("offsets", self.traces[name].offsets, self._has_offsets(name, seen)),
            ("topics", self.traces[name], self._has_topics(name, seen)),
        ):
            if not is_right:
                found.append(f"{name}: {what}: expected {wanted}, seen {seen}")
        return found

    def settle(self, everything: Mapping[str, Seen]) -> None:
        """Narrow to what was seen, of which there were no complaints."""
        for name, seen in everything.items():
            connector, traces = self.connectors[name], self.traces[name]
            connector.generations = {seen.generation}
            traces.topics, traces.may_be_topics = set(seen.topics), traces.may_be_topics - seen.topics
            for part, (_, high) in traces.offsets.items():
                n = seen.offsets.get(part, 0)
                # Tasks that were told to end may still commit what they have sent.
                traces.offsets[part] = n, n if connector.target == RUNNING else max(n, high)
        self.is_settled = True

    def task_state(self, name: str, task: int) -> set[str]:
        """Return what a task may be once everything has come to rest."""
        is_broken = (name, task) in self.broken
        if self.connectors[name].target == RUNNING:
            return {FAILED if is_broken else RUNNING}
        return {PAUSED, FAILED} if is_broken else {PAUSED}  # it failed before, or has not been tried since

    def _state(self, name: str) -> str:
        target = self.connectors[name].target
        return FAILED if target == RUNNING and (name, None) in self.broken else target

    def _generations(self, name: str) -> set[Generation]:
        connector = self.connectors[name]
        return {Generation.of(connector.config)} if self._publishes(name) else connector.generations

    def _has_task_states(self, name: str, seen: Seen) -> bool:
        return list(seen.tasks) == list(range(seen.generation.count)) and all(
            state in self.task_state(name, task) for task, state in seen.tasks.items()
        )

    def _has_offsets(self, name: str, seen: Seen) -> bool:
        ranges = dict(self.traces[name].offsets)
        if self.connectors[name].target == RUNNING:
            for part, task, goal in seen.generation.parts():
                if (name, task) not in self.broken:
                    ranges[part] = max(ranges[part][0], goal), max(ranges[part][1], goal)
        return all(low <= seen.offsets.get(part, 0) <= high for part, (low, high) in ranges.items())

    def _has_topics(self, name: str, seen: Seen) -> bool:
        traces = self.traces[name]
        return traces.topics <= seen.topics <= traces.topics | traces.may_be_topics
