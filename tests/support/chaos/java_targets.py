"""Tasks held inside their calls to Java: sources of numbers, one with a transform in Python; a source in Python with a
transform in Java; and a sink whose file tells what it was given.
"""

import json
from pathlib import Path

from fencepost.testing.verdict import Observation
from support.chaos.campaign import Campaign
from support.chaos.load import CountedLoad, LineLoad, NumberedLoad
from support.chaos.sink_matrix import SinkTarget
from support.java_plugins import STRING

TRANSACTION = 40
_CONVERTER = {"value.converter": "tests.GatedConverter", "key.converter": STRING}
_OWN_SLOT = {"slot.dedicated": "true", "tasks.max": "1"}
SOURCE_POINTS = (
    "poll before",
    "poll during",
    "poll after",
    "conversion during",
    "commitRecord during",
    "commit during",
)
CHAIN_POINT = "transform during"
SINK_POINTS = (
    "conversion during",
    "put before",
    "put during",
    "put after",
    "preCommit before",
    "preCommit during",
    "preCommit after",
)


def _gated(gate: int, name: str) -> dict[str, str]:
    """Return the settings of a transform `gated`, in Java, that can be held at CHAIN_POINT."""
    own = {"type": "tests.GatedTransform", "connector": name, "gate": str(gate)}
    return {f"transforms.gated.{key}": value for key, value in own.items()}


class _JavaNumbers:
    """The config of a source of numbers in Java, for a load that feeds it."""

    points: tuple[str, ...] = SOURCE_POINTS
    gate: int
    topic: str
    _file: Path
    _settings: dict[str, str]

    def config(self) -> dict[str, str]:
        return {
            "connector.class": "tests.GatedSourceConnector",
            "topic": self.topic,
            "file": str(self._file),
            "gate": str(self.gate),
            "transaction": str(TRANSACTION),
            **_OWN_SLOT,
            **_CONVERTER,
            **self._settings,
        }


class JavaCounted(_JavaNumbers, CountedLoad):
    """Numbers in transactions that the runtime makes."""

    def __init__(self, gate: int, name: str, directory: Path, topic: str, **settings: str) -> None:
        super().__init__(name, directory, topic, lines=1, tasks=1, **settings)
        self.gate = gate


class JavaNumbered(_JavaNumbers, NumberedLoad):
    """Numbers in transactions of the source's own, some of which it gives up."""

    def __init__(self, gate: int, name: str, directory: Path, topic: str, **settings: str) -> None:
        super().__init__(name, directory, topic, tasks=1, transaction_boundary="connector", **settings)
        self.gate = gate


class Mixed(JavaNumbered):
    """The same, whose records cross from a transform in Python to another one in Java."""

    points = (*(point for point in SOURCE_POINTS if point != "conversion during"), CHAIN_POINT)

    def config(self) -> dict[str, str]:
        chain = {"transforms": "stamped,gated", "transforms.stamped.type": "stamped.Stamped"}
        return super().config() | chain | _gated(self.gate, self.name) | {"value.converter": STRING}

    def is_at_home(self, observation: Observation) -> bool:
        return super().is_at_home(observation) and json.loads(observation.value or b"")["stamps"] == 1


class JavaLines(LineLoad):
    """Lines of a source in Python, which cross to a transform in Java and back."""

    points = (CHAIN_POINT,)

    def __init__(self, gate: int, name: str, directory: Path, topic: str, **settings: str) -> None:
        super().__init__(name, directory, topic, **settings)
        self.gate = gate

    def config(self) -> dict[str, str]:
        return super().config() | {"transforms": "gated"} | _gated(self.gate, self.name) | _OWN_SLOT


class JavaSource:
    """A source as something to be hit. Its progress is that of its load in a campaign."""

    def __init__(self, campaign: Campaign, load: JavaCounted | JavaNumbered | JavaLines) -> None:
        self.name = load.name
        self.points = load.points
        self._mark = campaign.marks[load.name]

    def hold_still(self) -> None:
        """Note what holds while the task is held."""

    def set_mark(self) -> None:
        """Set the mark: what is fed from now on is after it."""
        self._mark.set()

    def is_past_mark(self) -> bool:
        """Say whether something after the mark is committed."""
        return self._mark.is_passed()


class JavaSink(SinkTarget):
    """A sink as something to be hit."""

    points = SINK_POINTS

    def config(self, gate: int) -> dict[str, str]:
        own = {"connector.class": "tests.GatedSinkConnector", "topics": self.name}
        return own | {"file": str(self.file.path), "gate": str(gate)} | _OWN_SLOT | _CONVERTER

    def hold_still(self) -> None:
        """Write down what is committed: nobody commits while its task is held."""
        self.file.mark(self.committed())

    def set_mark(self) -> None:
        """Set the mark: what was fed until now is before it."""
        self._ends = dict(self.ends)

    def is_past_mark(self) -> bool:
        """Say whether all that is before the mark is committed."""
        return self.is_committed_up_to(self._ends)


JavaTarget = JavaSource | JavaSink
