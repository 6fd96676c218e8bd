"""What a cluster takes: to replace a worker, to hand tasks over, to fence, to answer meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import asking, fencing, losses, moves
from bench.fencing import OLD_TASKS
from bench.losses import CONNECTORS, INTERVAL_MS
from bench.options import Options
from bench.result import Result, Row
from bench.scene import LINES_PER_S, SEED, Measure, Scene
from bench.side import SIDES
from fencepost.embedded import EmbeddedKafka

ROWS: Mapping[str, tuple[str, str, Sequence[str], str]] = {
    "owner": (
        "2 workers, kill -9 of the one that runs the task → next committed record, defaults",
        "s",
        ("p50", "max"),
        "12 or less",
    ),
    "undelayed": (
        "the same with scheduled.rebalance.max.delay.ms=0",
        "s",
        ("p50", "max"),
        "11 or less",
    ),
    "restart": (
        f"{CONNECTORS} connectors, half with a transaction open: kill -9 of the only worker, started again at once → "
        "all committing",
        "s",
        ("p50", "max"),
        "12 or less",
    ),
    "moved": ("a worker leaves or joins: longest pause of a task that moves", "s", ("p50", "max"), "p99 2 or less"),
    "stayed": ("meanwhile: longest pause of a task that stays", "s", ("p50", "max"), "not disturbed"),
    "rescaled": (
        "3 to 5 to 1 tasks under load: PUT → a record of each new task",
        "s",
        ("p50", "max"),
        "p99 2 or less",
    ),
    "round": (
        f"a fencing round over {OLD_TASKS} old tasks, a third with open transactions",
        "s",
        ("p50", "max"),
        "2 or less",
    ),
    "post": ("POST a connector, one after another", "ms", ("median", "p99"), "50 or less"),
    "all running": ("all of them RUNNING after the last POST", "s", ("median",), "10 or less"),
    "get": ("GET a status while 3 workers run and one is killed", "ms", ("p50", "p99", "max"), "p99 50 or less"),
    "failed gets": ("other answers than 200 or a stated 409 meanwhile, or none", "", ("max",), "0"),
}


@dataclass(frozen=True)
class Case:
    """Some of the rows. `measure` is given a broker, a directory, a side and how often to look."""

    key: str
    measure: Measure
    full: int
    quick: int
    peer: int = 0
    """How often the peer is looked at; 0: it is not asked, or takes minutes each time."""


CASES = (
    Case("owner", losses.owner, 10, 2, peer=1),
    Case("undelayed", losses.undelayed, 10, 2, peer=3),
    Case("restart", losses.restart, 5, 2, peer=1),
    Case("handover", moves.handover, 10, 1),
    Case("rescale", moves.rescale, 10, 1),
    Case("round", fencing.fencing_round, 10, 2),
    Case("posts", asking.posts, 200, 20, peer=200),
    Case("gets", asking.gets, 3, 1, peer=1),
)


def run(options: Options) -> Result:
    """Each case on our side and, where it is to be asked, the peer's."""
    found: dict[str, dict[str, list[float]]] = {row: {side: [] for side in SIDES} for row in ROWS}
    with options.directory() as directory:
        for case in CASES:
            if options.cases and case.key not in options.cases:
                continue
            for name in options.sides(options.first):
                count = options.size(case.full, case.quick) if name == "fencepost" else case.peer
                if not count or (name != "fencepost" and options.is_quick):
                    continue
                with EmbeddedKafka() as kafka:
                    for row, values in case.measure(Scene(kafka, directory, name, count)).items():
                        found[row][name] += values
    rows = [Row(text, unit, found[key], stats, reach=reach) for key, (text, unit, stats, reach) in ROWS.items()]
    return Result("cluster", "The cluster", _method(), _settings(), rows)


def _settings() -> Mapping[str, Mapping[str, str]]:
    return {"both": dict.fromkeys(SIDES, "exactly-once, all at defaults but for what a row names")}


def _method() -> list[str]:
    return [
        f"All workers, the broker and the load share the machine. {LINES_PER_S} lines or rows a second. A worker is "
        "killed with everything below it, at a random moment "
        f"(seed {SEED}); times are from the signal, or the request, to what a read_committed consumer is given. A "
        "lost worker is started again after each measurement. Half of the "
        f"{CONNECTORS} connectors commit each {INTERVAL_MS / 1000:.0f} s, the others each poll. A pause is the "
        "longest time between two batches of one task, from a second before the event on. The peer is not asked where "
        "it has no like, and seldom where it takes minutes.",
    ]
