"""The page of evidence: `python -m tests.evidence [DIRECTORY]`.

With a directory of JSON lines (see `support.chaos.evidence`) it makes the summary of the tests that have records there
anew; the others stay. The page is always made from the summary. Both are committed: `evidence.json` and `evidence.md`
of `docs/explanation`.
"""

import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fencepost.kafka.setting.table import BATCH

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "evidence.md"
SUMMARY = PAGE.with_suffix(".json")

_LATER = ("converged_s", "returned_s")
_MOMENTS = ("before", "during", "after")
_PHASES = ("init", "first produce", "send offsets", "commit")
_PHASES_OF_SINKS = ("open", "put", "flush", "offset commit")
_MATRIX = "matrix"
_SINK_MATRIX = "sink-matrix"
_CLUSTER = "cluster"
_MIRROR = "mirror"
_STREAM = "stream"
_BROKERS = "brokers"
_MIRROR_BROKERS = "mirror-brokers"
_CUT_BROKER = "cut-broker"

Cells = Sequence[Mapping[str, Any]]

_SKIPPED = """
## What `make test` leaves out

Each run has all tests of transactions, of the loops of tasks and of the model, and the campaigns of faults that the
table in `tests/support/drawn.py` names. Of the others it draws some, as that table says: one of five planted bugs, one
of five to ten tests of the rest. The end of a run counts what was left out, with the command that runs it.
`FENCEPOST_TESTS_DRAWN_BY=all make test` leaves out none of these, and neither does `make chaos`.

Only `make chaos` runs

- databases and stores with Java's connectors, which take minutes each and plug-ins of hundreds of megabytes:
  `test_debezium.py`, `test_iceberg.py`, `test_jdbc_sink.py`, `test_mongo_sink.py`.
- comparisons with a worker of Kafka Connect, which takes half a minute to start: `test_metric_values.py`,
  `test_tools_oracle.py`, `test_mirror_maker.py`, half of `integration/cli`.
- long forms of what has a short one: `test_kills.py`, `test_mirror_brokers.py` (six brokers), `test_hangs_table.py`,
  `test_java_footprint.py`, `test_cluster.py`, `test_lost_members.py`, `test_initial_offsets.py`,
  `test_object_store.py`, `test_traces.py`, `test_adopt.py`.
- what needs time to show: `test_soak.py` (an hour), `test_rest_fuzz.py` (ten minutes), `test_quotas.py` (one minute).

Some tests are skipped where something is missing, and name it:

- what a machine may not have: `test_alert_rules.py` (promtool), `test_web_ui.py` (Chromium, the built site),
  `test_chart.py` (Helm), `test_service_files.py` (systemd), `test_wheel.py` and `test_retyped.py` (Postgres, a JDK, a
  clone), and what `support/postgres`, `support/mariadb`, `support/browser` and `support/java_program` start.
- what a system may not be able to do: `test_spool.py`, `test_spool_moves.py`, `test_local_directory.py`,
  `test_file_watch.py`, `support/small_disk` (mounts, inotify), `test_embedded_guard.py`, `test_memory.py` (Linux),
  `test_data_source.py`, `test_epoch_frame.py`, `test_kafka_read.py`, `test_stream_sink.py`, `test_sql_stream.py`,
  `test_query_kills.py`, `test_registry_dataframes.py`, `test_s3_checkpoint.py` (Spark 4.2).
"""

_HEAD = """\
# Evidence

What the tests with faults have found, counted from their own records. Generated: `make chaos` keeps the records,
`make evidence` makes this page of them. What is promised stands in [delivery guarantees](../delivery-guarantees.md)
and [invariants](../invariants.md).

A fault counts once for each task that it hits; where the tasks write with both clients it is told how many of them had
the batch client. After each one the loads have to go on by themselves, and at the end
of a run two `read_committed` readers, one that watched and one that comes afterwards, are compared with the
generators' own lists: a record that is missing (the tail included), doubled, out of order in its source partition, or
in a topic or with a key that its payload denies is an anomaly, and so are a task that had to be restarted and a
transaction left open. Recovery times are those of a small machine that had other work as well; those that count stand
among the benchmarks. A run that broke off before its verdict is not counted: the harness had hurt somebody whom it did
not mean, or something did not come back, as after the broker's restarts of [decision
0016](../decisions/0016-a-killed-broker-is-fenced-first.md).
"""

_MATRIX_TEXT = """\
## Faults at chosen points of a transaction

The task's producer reaches the broker through a proxy that knows Kafka's requests. The proxy withholds the named
request (*before*), or delivers it and withholds the answer (*during*), or lets the answer through and withholds the
next request (*after*); *during commit* the broker's own markers are withheld, so that the transaction stays prepared.
Then the broker is asked for the state of the transaction, which must be the one that the point implies, and only then
the fault comes. What was withheld is delivered late, to be refused, or lost; a process that was stopped gets to
deliver it when it wakes up, after its successor has committed. (Begin is local to the client; source offsets are
records of the offsets topic. *After send offsets* and *before commit* withhold the same request.)

`python -m pytest tests/chaos/test_matrix.py`; a cell says how many faults hit there, and the state the broker
described.
"""

_SINK_TEXT = """\
## Faults at chosen points of a sink's calls

The task asks the test at each point of `open`, `put` and `flush` whether it may go on, and is held there: at the
entry (*before*), in the middle, when a half of its records is written (*during*), or at the end (*after*). A commit
of offsets goes through a proxy, which withholds the request, or its answer; *after* it the task is held at its next
`put`. While it is held, what is committed is noted in the file that the sink writes. Then the fault comes; what a
killed process had sent is delivered late or lost, and a process that was stopped goes on when its successor has
written.

The file alone is judged: no record missing and none unexpected, in the order of each partition where the first time
counts; everything below a committed offset was written before that; whoever takes over begins no earlier than what
was committed; the group never goes back. The times are those until another has written of every partition.

`python -m pytest tests/chaos/test_sink_matrix.py`
"""

_CLUSTER_TEXT = """\
## Faults of a cluster

Three workers of one group (their slots are plain processes, without Spark) run four connectors with 9 to 12 tasks, with
all three kinds of transaction boundary; the number of tasks of one of them changes all the time. Every worker reaches
the broker through a proxy and is reached by its peers through a gate, so that each way can be cut. *During a write* the
leader's transaction is held at the named request, the broker confirms its state, and then the leader is lost; what was
withheld is delivered after others have taken over, or lost. The session time-out is 3 s.

*New record* is the time from the fault until every task of every connector has committed a record that was made after
the fault; *converged* until, besides, the workers that are left say that everything runs, evenly spread; *after the
return* is the same for all workers, from the moment on at which the victim is up, goes on or is connected again. For
the broker and for peers that are cut off nobody is replaced: the times count from the broker's being up, and from the
cut. Beyond the verdict on the records, the config topic is read for writes of a leader of which a part is missing, and
the status topic for a FAILED.

`python -m pytest tests/chaos/test_cluster_chaos.py`

| what | phase | faults | new record, median | longest | converged, longest | after the return, longest |
|---|---|---|---|---|---|---|
"""

_MIRROR_TEXT = """\
## Faults of a mirror

Two workers of one group run a mirror of the sink type, with transactions, from one broker to another, while
applications write to the source: tombstones, headers, every codec, a compacted topic, a third of the transactions
aborted. The source is reached through a proxy, the target by each worker through one of its own. With every other fault
the plan changes: another number of tasks, a new topic, more partitions.

*New records* is the time from the fault until records that were written after it are at the target, in every partition
that is written to. At the end both readers are compared with what was committed at the source, for each partition in
order; each offset sync has to name the record that it says; and the group of the target stands at the end of each
partition.

`python -m pytest tests/chaos/test_mirror_faults.py`

| what | meets | faults | new records, median | longest |
|---|---|---|---|---|
"""

_STREAM_TEXT = """\
## Faults of a stream

Two workers of one group run the two or three tasks of a stream, while applications write to its input, four
partitions of two topics; a third of their transactions is aborted. Transactions of the tasks are open at nearly any
moment, and may stay so for ten minutes: what a task leaves open its successors have to end. With every third fault
the number of tasks changes at the same time.

*New records* is the time from the fault until records that were written after it have come out, for every partition
of the input. At the end both readers are compared with what was committed in the input, for each partition in order;
and the group stands at the end of each partition.

`python -m pytest tests/chaos/test_stream_faults.py`

| what | meets | faults | new records, median | longest |
|---|---|---|---|---|
"""

_BROKERS_TEXT = """\
## Faults of brokers

Three brokers, three replicas of every topic, `min.insync.replicas=2`. A worker writes a topic of three partitions into
files, and by SQL into another topic, while an idempotent producer writes to it. Leaders of the input, and coordinators
of groups and transactions, are moved; a leader is killed right after it has acknowledged records; with
`min.insync.replicas=3` of the input its successor has them, and does not show them before the third replica is back; a
leader that stood still for longer than a broker's session wakes up, and has not heard that it was deposed.

*New records* is the time from the fault until records that were written after it are in files and in the other topic,
for every partition of the input. At the end both are compared with what was written, for each partition in order.

`python -m pytest tests/chaos/test_broker_faults.py`

| what | meets | faults | new records, median | longest |
|---|---|---|---|---|
"""

_MIRROR_BROKERS_TEXT = """\
## Faults of brokers at both ends of a mirror

Two clusters of three brokers, three replicas of every topic, `min.insync.replicas=2`, and two workers with a mirror of
the sink type from one to the other, with transactions. Applications write to the source as they do for the faults of a
mirror. Leaders of the data and coordinators are moved; a leader is killed, or stands still for longer than a broker's
session and wakes up deposed; with `min.insync.replicas=3` of the data a leader is killed, so that nothing is committed
to the logs before it is back.

*New records* is the time from the fault until records that were written after it are at the target, in every partition;
where replicas are missing, from the moment on at which the third broker is back. At the end the same is compared as
for the faults of a mirror.

`python -m pytest tests/chaos/test_mirror_brokers.py`

| what | at | faults | new records, median | longest |
|---|---|---|---|---|
"""

_CUT_BROKER_TEXT = """\
## Faults of a broker that the others do not reach

A controller and three brokers, three replicas of every topic, `min.insync.replicas=2`. Nodes talk to each other through
proxies, and clients reach all brokers directly. A broker is cut off from the other nodes and goes on to answer clients
by what it last knew, or it stands still, or both; then one worker or one slot is killed and starts again. Before, the
broker led inputs and outputs, or was the coordinator of groups and transactions, or led the worker's own topics, or all
of it. Everything runs that Fencepost has: sinks and sources in Python and Java, streams, both types of mirrors with the
broker at either end, files, SQL, `spark.readStream`, direct writes.

*New records* is the time from the fault until records that were written after it have come through the slowest of
these. At the end each is compared with what was written, for each partition in order.

`python -m pytest tests/chaos/test_cut_broker.py`

| the broker | started again | faults | new records, median | longest |
|---|---|---|---|---|
"""

_OTHER_TEXT = """\
## Other faults

| test | what | phase | faults | recovery, median | longest |
|---|---|---|---|---|---|
"""


def summarise(directory: Path) -> dict[str, Any]:
    """Return the summary of all records in a directory."""
    lines = [json.loads(line) for file in sorted(directory.glob("*.jsonl")) for line in file.read_text().splitlines()]
    faults = [line for line in lines if "what" in line]
    count = Counter(fault["run"] for fault in faults)
    batch = Counter(fault["run"] for fault in faults if fault.get("client") == BATCH)
    heads = [line for line in lines if "versions" in line]
    return {
        "runs": [{**head, "faults": count[head["run"]], "batch": batch[head["run"]]} for head in heads],
        "cells": list(_cells(faults)),
    }


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary in which the tests that the new one has are as there, and the others as in the old one."""
    tests = {run["test"] for run in new["runs"]}
    both = {
        kind: [*(each for each in old[kind] if each["test"] not in tests), *new[kind]] for kind in ("runs", "cells")
    }
    return {"runs": sorted(both["runs"], key=lambda run: run["run"]), "cells": both["cells"]}


def _cells(faults: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    cells: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for fault in faults:
        cells[fault["test"], fault["what"], fault.get("task_kind", ""), fault["phase"]].append(fault)
    for (test, what, task_kind, phase), found in sorted(cells.items()):
        times = [f["recovery_s"] for f in found if f["recovery_s"] is not None]
        yield {
            "test": test,
            "what": what,
            "task_kind": task_kind,
            "phase": phase,
            "faults": len(found),
            "clean": sum(f["verdict"] == "clean" for f in found),
            "states": dict(Counter(f["state"] for f in found if f["state"])),
            "withheld": dict(Counter(f["withheld"] for f in found if f.get("withheld"))),
            "recovery_s": [round(t, 1) for t in (statistics.median(times), max(times))] if times else None,
            **{key: round(max(f[key] for f in found), 1) for key in _LATER if all(key in f for f in found)},
        }


def page(summary: Mapping[str, Any]) -> str:
    """Return the page that says what a summary holds."""
    by_test: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for cell in summary["cells"]:
        by_test[cell["test"]].append(cell)
    parts = [_HEAD, _verdict(summary), _runs(summary["runs"])]
    for test, text, lines in _SECTIONS:
        if found := by_test.pop(test, None):
            parts.append(text + "\n".join(lines(found)))
    others = [cell for cell in summary["cells"] if cell["test"] in by_test]
    if others:
        parts.append(_OTHER_TEXT + "\n".join(_rows(_other, others)))
    return "\n".join([*parts, _SKIPPED])


def _rows(row: Callable[[Mapping[str, Any]], str], cells: Cells) -> Iterator[str]:
    yield from map(row, cells)
    yield ""


def _verdict(summary: Mapping[str, Any]) -> str:
    count = sum(cell["faults"] for cell in summary["cells"])
    clean = sum(cell["clean"] for cell in summary["cells"])
    records = sum(run["records"] for run in summary["runs"])
    runs = len(summary["runs"])
    if count == 0 or clean < count:
        return f"**{clean:,} of {count:,} faults are in runs without an anomaly** ({runs} runs, {records:,} records).\n"
    return (
        f"**{count:,} faults, no anomaly** ({runs} runs, {records:,} records). So many faults without an anomaly bound "
        f"the chance that such a fault leaves one: it is below 3/{count} = {3 / count:.2%}, with a confidence "
        "of 95 %. The bound is about the faults listed here, on one machine, and about no others.\n"
    )


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| test | seed | date | commit | faults | with the batch client | records | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        lines.append(
            f"| {run['test']} | {run['seed']} | {run['date']} | {run['commit']} | {run['faults']} "
            f"| {run.get('batch', 0)} | {run['records']:,} | {run['verdict']} |"
        )
    versions = sorted({f"{name} {number}" for run in runs for name, number in run["versions"].items()})
    return "\n".join([*lines, "", f"Versions: {', '.join(versions)}. `FENCEPOST_CHAOS_SEED` repeats a plan.", ""])


def _tables(cells: Sequence[Mapping[str, Any]], phases: Sequence[str]) -> Iterator[str]:
    for task_kind in sorted({cell["task_kind"] for cell in cells}, reverse=True):
        own = [cell for cell in cells if cell["task_kind"] == task_kind]
        kinds = sorted({cell["what"] for cell in own})
        yield f"### Tasks in {task_kind}s\n" if phases is _PHASES else "### Tasks in slots\n"
        yield f"| point | {' | '.join(kinds)} |"
        yield "|---" * (len(kinds) + 1) + "|"
        for phase in (f"{moment} {phase}" for phase in phases for moment in _MOMENTS):
            found = [[c for c in own if (c["what"], c["phase"]) == (kind, phase)] for kind in kinds]
            yield f"| {phase} | {' | '.join(_cell(c[0]) if c else '0' for c in found)} |"
        yield f"| recovery, median and longest | {' | '.join(_times(own, kind) for kind in kinds)} |"
        yield ""


def _cell(cell: Mapping[str, Any]) -> str:
    states = ", ".join(sorted(cell["states"]))
    return f"{cell['faults']} ({states})" if states else str(cell["faults"])


def _times(cells: Sequence[Mapping[str, Any]], kind: str) -> str:
    times = [cell["recovery_s"] for cell in cells if cell["what"] == kind and cell["recovery_s"]]
    return f"{statistics.median(t[0] for t in times):.1f} s, {max(t[1] for t in times):.1f} s" if times else ""


def _cluster_row(cell: Mapping[str, Any]) -> str:
    times = (*cell["recovery_s"], *(cell[key] for key in _LATER))
    return f"| {cell['what']} | {cell['phase']} | {cell['faults']} | {' | '.join(f'{t:.1f} s' for t in times)} |"


def _connector_row(cell: Mapping[str, Any]) -> str:
    return f"| {cell['what']} | {cell['phase']} | {cell['faults']} | {_recovery(cell)} |"


def _other(cell: Mapping[str, Any]) -> str:
    return f"| {cell['test']} | {cell['what']} | {cell['phase']} | {cell['faults']} | {_recovery(cell)} |"


def _recovery(cell: Mapping[str, Any]) -> str:
    median, longest = (f"{t:.1f} s" for t in cell["recovery_s"]) if cell["recovery_s"] else ("", "")
    return f"{median} | {longest}"


_SECTIONS: Sequence[tuple[str, str, Callable[[Cells], Iterable[str]]]] = (
    (_MATRIX, f"{_MATRIX_TEXT}\n", lambda cells: _tables(cells, _PHASES)),
    (_SINK_MATRIX, f"{_SINK_TEXT}\n", lambda cells: _tables(cells, _PHASES_OF_SINKS)),
    (_CLUSTER, _CLUSTER_TEXT, partial(_rows, _cluster_row)),
    (_MIRROR, _MIRROR_TEXT, partial(_rows, _connector_row)),
    (_STREAM, _STREAM_TEXT, partial(_rows, _connector_row)),
    (_BROKERS, _BROKERS_TEXT, partial(_rows, _connector_row)),
    (_MIRROR_BROKERS, _MIRROR_BROKERS_TEXT, partial(_rows, _connector_row)),
    (_CUT_BROKER, _CUT_BROKER_TEXT, partial(_rows, _connector_row)),
)
"""The sections of the page in their order: the test, the text, and the lines that are made of the test's cells."""


def main(arguments: Sequence[str]) -> None:
    PAGE.parent.mkdir(exist_ok=True)
    if arguments:
        found = merged(json.loads(SUMMARY.read_text()), summarise(Path(arguments[0])))
        SUMMARY.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(json.loads(SUMMARY.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])
