"""What waits to be resent, and whether it has somewhere to go."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fencepost.api import FatalError
from fencepost.config import ConfigError
from fencepost.config.check import topic_name
from fencepost.config.connector import SinkChoice
from fencepost.dead_letter.letter import DeadLetter

RESEND = SinkChoice.key_of("resend_topic")
_EXAMPLES = 3
_LISTED = 10
_LONGEST = 249  # as Kafka's names of topics
_fault = topic_name()
_MOST_ORIGINS = 100_000  # whoever can write to the topic can put anything into headers


def shown_topic(name: str) -> str:
    """Return a topic's name from a header, for a text: anything can be there, of any length."""
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"


def without_origin(place: str) -> str:
    """Return why a dead letter cannot be resent whose headers do not name its record's topic and partition."""
    return (
        f"Dead letter {place} cannot be resent: its headers do not say from which topic and partition its record came. "
        f"Pass over it permanently: --skip {place}"
    )


@dataclass(frozen=True)
class Survey:
    """How many dead letters wait, by the topic and partition that they came from, and the places of the first ones.

    `skipped` of those that wait are passed over; they are not among the counts. `lost` do not say where they came from.
    """

    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    examples: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    skipped: int = 0
    lost: tuple[str, ...] = ()

    @classmethod
    def of(cls, waiting: Iterable[DeadLetter], is_skipped: Callable[[DeadLetter], bool]) -> "Survey":
        counts, examples, skipped = Counter[tuple[str, int]](), dict[tuple[str, int], list[str]](), 0
        lost: list[str] = []
        for dead_letter in waiting:
            if is_skipped(dead_letter):
                skipped += 1
                continue
            if dead_letter.origin is None:
                lost.append(dead_letter.place)
                continue
            topic, partition = dead_letter.origin
            origin = (shown_topic(topic), partition)  # what is longer is no topic's name, and not kept whole
            counts[origin] += 1
            if len(counts) > _MOST_ORIGINS:
                raise FatalError(
                    f"By their headers, dead letters came from more than {_MOST_ORIGINS} partitions, as no sink has "
                    f"them ({dead_letter.place} is one). Nothing is sent"
                )
            places = examples.setdefault(origin, [])
            if len(places) < _EXAMPLES:
                places.append(dead_letter.place)
        return cls(counts, examples, skipped, tuple(lost))

    @property
    def total(self) -> int:
        """Return how many are to be sent."""
        return self.counts.total()

    @property
    def targets(self) -> Counter[str]:
        """Return how many are to be sent, by the topic that they came from."""
        found = Counter[str]()
        for (topic, _), count in self.counts.items():
            found[topic] += count
        return found

    def ensure_have_origins(self, connector: str) -> None:
        """Raise ConfigError, with the next step, if some do not say where they came from."""
        if not self.lost:
            return
        named = ", ".join(self.lost[:_LISTED]) + (", …" if len(self.lost) > _LISTED else "")
        raise ConfigError(
            f"{len(self.lost)} dead letters of {connector} cannot be resent: their headers do not say from which topic "
            f"and partition their records came ({named}). Nothing is "
            f"sent. Pass over each permanently, as in --skip {self.lost[0]}, or over all of a topic with --skip TOPIC"
        )

    def ensure_have_somewhere_to_go(self, connector: str, partitions: Callable[[str], int | None]) -> None:
        """Raise ConfigError, with the next step, if some came from topics or partitions that do not exist now.

        `partitions` returns how many a topic has; None if it does not exist.
        """
        nowhere = self._nowhere({t: partitions(t) if _fault(t) is None else None for t in self.targets})
        if not nowhere:
            return
        texts = [
            f"{count} of {what} ({', '.join(places)}{', …' if count > len(places) else ''})"
            for what, (count, places) in sorted(nowhere.items())[:_LISTED]
        ]
        _, places = next(iter(nowhere.values()))
        more = "; …" if len(nowhere) > _LISTED else ""
        raise ConfigError(
            f"Dead letters of {connector} came from topics or partitions that do not exist any more: "
            f"{'; '.join(texts)}{more}. Nothing is sent. Create what is missing, give the sink its own topic "
            f"({RESEND}), or pass over them permanently: --skip TOPIC passes over all dead letters that came from a "
            f"topic, --skip LETTER over one, as in --skip {places[0]}"
        )

    def _nowhere(self, partitions: Mapping[str, int | None]) -> dict[str, tuple[int, list[str]]]:
        """Return how many have no destination, and the first ones, by the missing topic or partition."""
        found: dict[str, tuple[int, list[str]]] = {}
        for (topic, partition), count in self.counts.items():
            there = partitions[topic]
            if there is not None and partition < there:
                continue
            missing = f"partition {partition} of topic {shown_topic(topic)}, which has {there}"
            what = f"topic {shown_topic(topic)}, which does not exist" if there is None else missing
            before, places = found.get(what, (0, []))
            found[what] = before + count, [*places, *self.examples[(topic, partition)]][:_EXAMPLES]
        return found
