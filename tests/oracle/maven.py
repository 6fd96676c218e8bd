"""Records how Maven compares versions: `python tests/oracle/maven.py`.

The result is committed as `tests/fixtures/connect-4.3.1/versions.json`: what was asked, and the answer.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench import peer

from fencepost.embedded.java import find_java

PROGRAM = Path(__file__).with_name("MavenVersions.java")
OUTPUT = Path(__file__).parents[1] / "fixtures" / "connect-4.3.1" / "versions.json"
_SEED, _PAIRS, _RANGES = 891, 600, 200
_NUMBERS = ("0", "1", "2", "9", "10", "00", "01")
_WORDS = (
    "alpha",
    "a",
    "beta",
    "b",
    "milestone",
    "m",
    "rc",
    "cr",
    "snapshot",
    "ga",
    "final",
    "release",
    "sp",
    "x",
    "dev",
    "FINAL",
)


def _version(random_: random.Random) -> str:
    parts = [random_.choice(_NUMBERS)]
    for _ in range(random_.randrange(4)):
        parts.append(random_.choice((".", "-", "")))
        parts.append(random_.choice(random_.choice((_NUMBERS, _NUMBERS, _WORDS))))
    return "".join(parts)


def _range(random_: random.Random) -> str:
    ends = [random_.choice(("", _version(random_))) for _ in range(2)]
    return f"{random_.choice('[(')}{ends[0]},{ends[1]}{random_.choice('])')}"


def main() -> None:
    random_ = random.Random(_SEED)
    asked = [(_version(random_), _version(random_)) for _ in range(_PAIRS)]
    asked += [(_range(random_), _version(random_)) for _ in range(_RANGES)]
    lines = "".join(f"{one}\t{other}\n" for one, other in asked)
    command = [str(find_java().path), "-cp", peer.classpath(), str(PROGRAM)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    answers = [[*pair, answer] for pair, answer in zip(asked, done.stdout.splitlines(), strict=True)]
    OUTPUT.write_text("[\n" + ",\n".join(json.dumps(one) for one in answers) + "\n]\n")
    print(f"{len(answers)} answers")


if __name__ == "__main__":
    main()
