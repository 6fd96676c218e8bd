"""The plan of the crash matrix keeps its quotas, and the page of evidence says what the records say."""

import json
from collections import Counter

import pytest

from evidence import PAGE, SUMMARY, merged, page, summarise
from fencepost.kafka.setting.table import LIBRDKAFKA
from support.chaos.point import MATRIX_KINDS, POINTS, Moment, Phase, Point, TaskKind, matrix

TASK_KINDS = [TaskKind.SLOT] * 6 + [TaskKind.SPLIT]


@pytest.mark.parametrize("passes", [1, 3])
def test_every_kind_of_fault_hits_every_point_once_per_pass(passes):
    rounds = matrix(7, passes, TASK_KINDS)
    hit = Counter((r.kind, b.point) for r in rounds for b in r.blows if TASK_KINDS[b.target] is TaskKind.SLOT)
    assert hit == {(kind, point): passes for kind in MATRIX_KINDS for point in POINTS}


def test_crash_matrix_round_hits_no_target_twice():
    for each in matrix(11, 2, TASK_KINDS):
        targets = [blow.target for blow in each.blows]
        assert len(set(targets)) == len(targets)


def test_the_same_seed_plans_the_same_rounds():
    assert matrix(3, 2, TASK_KINDS) == matrix(3, 2, TASK_KINDS) != matrix(4, 2, TASK_KINDS)


def test_crash_matrix_plans_at_least_40_faults_and_300_in_8_passes():
    assert sum(len(each.blows) for each in matrix(0, 1, TASK_KINDS)) >= 40
    assert sum(len(each.blows) for each in matrix(0, 8, TASK_KINDS)) >= 300


def test_transaction_state_during_commit_is_prepare_commit():
    assert Point(Phase.COMMIT, Moment.DURING).states(LIBRDKAFKA) == {"PrepareCommit"}
    assert Point(Phase.INIT, Moment.AFTER).is_initialised(LIBRDKAFKA) is True


def _records(directory, verdict, test="matrix"):
    about = {"test": test, "seed": 5, "run": f"{test}-5-1"}
    head = {**about, "date": "2026-01-01", "commit": "abc", "versions": {"Python": "3"}, "records": 10}
    fault = {"what": "SIGKILL", "task_kind": "slot", "phase": "before commit", "state": "Ongoing", "recovery_s": 1.25}
    lines = [
        {**head, "verdict": verdict},
        {**about, **fault, "verdict": verdict},
        {**about, **fault, "verdict": verdict},
    ]
    (directory / "run.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


def test_evidence_page_gives_the_bound_for_faults_without_an_anomaly(tmp_path):
    _records(tmp_path, "clean")
    text = page(summarise(tmp_path))
    assert "**2 faults, no anomaly**" in text
    assert "| before commit | 2 (Ongoing) |" in text
    assert "150.00%" in text


def test_evidence_page_shows_recovery_times_of_cluster_faults(tmp_path):
    about = {"test": "cluster", "seed": 5, "run": "cluster-5-1"}
    head = {**about, "date": "2026-01-01", "commit": "abc", "versions": {"Python": "3"}, "records": 10}
    fault = {"what": "SIGKILL of the leader", "phase": "any moment", "state": None, "verdict": "clean"}
    lines = [
        {**head, "verdict": "clean"},
        {**about, **fault, "recovery_s": 2.0, "converged_s": 2.5, "returned_s": 4.0},
        {**about, **fault, "recovery_s": 3.0, "converged_s": 3.5, "returned_s": 1.0},
    ]
    (tmp_path / "run.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    assert "| SIGKILL of the leader | any moment | 2 | 2.5 s | 3.0 s | 3.5 s | 4.0 s |" in page(summarise(tmp_path))


def test_evidence_page_shows_phase_and_recovery_time_of_mirror_faults(tmp_path):
    _records(tmp_path, "clean", "mirror")
    assert "| SIGKILL | before commit | 2 | 1.2 s | 1.2 s |" in page(summarise(tmp_path))


def test_earlier_runs_stay_in_the_evidence_when_their_records_are_gone(tmp_path):
    _records(tmp_path, "clean")
    before = summarise(tmp_path)
    _records(tmp_path, "anomaly", "mirror")
    both = merged(before, summarise(tmp_path))
    assert [(run["test"], run["verdict"]) for run in both["runs"]] == [("matrix", "clean"), ("mirror", "anomaly")]
    assert merged(both, before) == {"runs": both["runs"], "cells": both["cells"][::-1]}


@pytest.mark.parametrize("verdict", ["anomaly", "unproven"])
def test_evidence_page_gives_no_bound_when_a_run_is_not_clean(tmp_path, verdict):
    _records(tmp_path, verdict)
    text = page(summarise(tmp_path))
    assert "0 of 2 faults" in text
    assert "95 %" not in text


def test_evidence_page_is_generated_from_the_committed_summary():
    assert PAGE.read_text() == page(json.loads(SUMMARY.read_text())), "run `make evidence`"
