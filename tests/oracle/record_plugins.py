"""Records what a real Kafka Connect 4.3.1 says of its plug-ins: `python tests/oracle/record_plugins.py`.

A broker and one worker are started, and asked what `plugin_scenario` lists. The result is committed as
`tests/fixtures/connect-4.3.1/plugins.json`: a line for each request. Recommended classes, which are the same for many
keys, are kept once.
"""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from fencepost.embedded import EmbeddedKafka
from oracle.connect import KafkaConnect
from oracle.plugin_scenario import CASES, COLUMNS, kept
from oracle.record import PORT, WORKER
from oracle.recorder import Json, Recorder

OUTPUT = Path(__file__).parents[1] / "fixtures" / "connect-4.3.1" / "plugins.json"
_MANY = 5


def _shortened(answer: Json, lists: list[Json]) -> Json:
    """Replace long lists of recommended values by their numbers in `lists`."""
    rows = answer["rows"] if isinstance(answer, dict) else answer
    at = COLUMNS.index("recommended_values")
    for each in rows:
        if len(each[at] or ()) >= _MANY:
            if each[at] not in lists:
                lists.append(each[at])
            each[at] = lists.index(each[at])
    return answer


def main() -> None:
    lists: list[Json] = []
    lines = []
    with tempfile.TemporaryDirectory() as temporary, EmbeddedKafka() as kafka:
        with KafkaConnect(kafka.bootstrap_servers, Path(temporary), PORT, WORKER) as worker:
            rest = Recorder(worker.url)
            for case in CASES:
                answer = kept(rest.call("GET" if case.body is None else "PUT", case.path, case.body))
                status = rest.exchanges[-1]["status"]
                said = answer if status >= 400 else _shortened(answer, lists)
                lines.append([case.path, case.body, status, said])
    text = ",\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
    known = json.dumps(lists, ensure_ascii=False)
    OUTPUT.write_text(f'{{"lists": {known},\n"answers": [\n{text}\n]}}\n')
    print(f"{len(lines)} answers, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
