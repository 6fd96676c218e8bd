"""Each planted bug turns a test red, which `make test` runs without the bug as well, where it stands."""

import re
from typing import NamedTuple

import pytest

from support.own_pytest import run

_CONFORMANCE = "tests/conformance/transaction"
_LONE = f"{_CONFORMANCE}/test_lone_task.py"
_SINK = "tests/unit/task/sink/test_sink_loop.py"
_KEEPER = "tests/conformance/retention/test_keeper.py"
_HELD = "tests/conformance/task/test_offsets_in_group.py"
_STREAM = "tests/conformance/task/test_stream.py"
_INPUT = f"{_CONFORMANCE}/test_input_fence.py"
_EPOCHS = "tests/conformance/task/test_epoch_task.py"

_BATCH = f"{_CONFORMANCE}/test_batch_commit.py"
_TRAPS = f"{_CONFORMANCE}/test_traps.py"

_DECISION = "tests/unit/retention/test_decision.py"
_COLUMNS = "tests/unit/task/source/test_chains_on_columns.py"
_STORE = "tests/unit/builtin/connector/files/test_files_store.py"


class Plant(NamedTuple):
    """The test that notices a bug, and a pattern of the error that it fails with.

    A test that fails with another error (of a fixture, of a step before, a time-out) has not noticed the bug.
    """

    test: str
    symptom: str


PLANTS = {
    "no_fence": Plant(
        f"{_CONFORMANCE}/test_fencing.py::test_e2_open_fences_the_predecessor_and_hides_its_open_transaction",
        r"DID NOT RAISE any of \(WriterFencedError, CommitUnknownError\)",
    ),
    "position_before_fence": Plant(
        f"{_LONE}::test_e3_records_that_a_zombie_commits_before_the_fence_are_not_redelivered",
        r"AssertionError: \d+ records expected, \d+ observed",
    ),
    "position_outside_transaction": Plant(
        f"{_LONE}::test_e1_position_covers_all_visible_records_when_a_commit_is_withheld[librdkafka-1]",
        r"AssertionError: not within \d+ s; last seen: False",
    ),
    "struck_producer_kept": Plant(
        f"{_CONFORMANCE}/test_strike.py::"
        "test_e5_late_end_tears_no_transaction_when_the_writer_is_replaced[librdkafka-abort-same partition]",
        r"assert \[b'a1', b'b1'\] == \[b'a1'\]",
    ),  # an abort: what the late end commits can then not be what was wanted, whenever it comes
    "second_commit": Plant(
        f"{_CONFORMANCE}/test_strike.py::test_e6_an_unknown_commit_can_be_neither_repeated_nor_aborted",
        r"assert <WriterState\.IN_TRANSACTION: .*> is <WriterState\.UNKNOWN: 'unknown'>",
    ),
    "lane_commits_early": Plant(
        f"{_LONE}::test_no_lane_commits_before_the_previous_transaction",
        r"AssertionError: \d+ records expected, \d+ observed",
    ),
    "decision_before_fence": Plant(
        "tests/conformance/transaction/test_write_committer.py::"
        "test_predecessor_cannot_commit_once_the_decision_is_read",
        r"DID NOT RAISE",
    ),
    "one_lane_fenced": Plant(
        f"{_LONE}::test_e2_neither_lane_of_a_zombie_commits_when_its_successor_uses_one",
        r"AssertionError: \d+ records expected, \d+ observed",
    ),
    "lane_sends_early": Plant(
        f"{_LONE}::test_no_lane_sends_before_the_previous_transaction_is_flushed",
        r"assert \d+ == 0|\d+ records expected, \d+ observed",  # a slow machine sends early, but too late to be seen
    ),
    "offset_before_flush": Plant(
        f"{_SINK}::test_failed_flush_commits_no_offset_and_its_records_are_read_again",
        r"At index 1 diff: \('commit', .*\) != \('flush', ",
    ),
    "put_after_revocation": Plant(
        f"{_SINK}::test_refused_records_of_a_revoked_partition_are_not_put_again",
        r"assert \[\('put', \(0, 0\), \(1, 0\)\)\] == \[\('put', \(1, 0\)\)\]",
    ),
    "fetched_before_revocation": Plant(
        "tests/conformance/task/test_group_input.py::test_records_fetched_before_a_revocation_are_not_returned[2-records]",
        r"assert \[0, 1, .*\] == \[\]",
    ),
    "read_before_revocation": Plant(
        "tests/conformance/task/test_group_batches.py::"
        "test_e14_no_record_read_before_a_revocation_is_returned_after_it[10000]",
        r"Left contains \d+ more items",
    ),
    "dead_letter_not_awaited": Plant(
        f"{_SINK}::test_no_offset_passes_an_unsafe_dead_letter",
        r"At index 0 diff: \('commit', .*: 1\}\) != \('commit', .*: 2\}\)",
    ),
    "epoch_letter_not_awaited": Plant(
        f"{_EPOCHS}::test_e13_epoch_is_not_committed_before_its_dead_letters_are_acknowledged",
        r"assert \d == 3",
    ),
    "epoch_planned_anew": Plant(
        f"{_EPOCHS}::test_e16_an_epoch_that_was_begun_is_finished_with_the_same_ranges[write]",
        r"assert \(0, 0, 5\) in \[\(0, 0, 12\)\]",
    ),
    "token_not_durable": Plant(
        f"{_EPOCHS}::test_e16_an_epoch_that_was_begun_is_finished_with_the_same_ranges[publish]",
        r"AssertionError: \[\(0, 0, 5\), \(0, 0, 5\), \(0, 5, 12\)\]",
    ),
    "shown_before_on_disk": Plant(
        "tests/unit/builtin/connector/files/test_files_store.py::test_e17_files_are_synced_to_disk_before_they_are_published",
        r"assert \[False, False, False, False\] == \[True, True, True, True\]",
    ),
    "letter_outside_transaction": Plant(
        "tests/conformance/task/test_source_letters.py::test_e15_task_killed_before_its_commit_leaves_no_dead_letter",
        r"assert \[<confluent_k.*>\] == \[\]",
    ),
    "selected_letter_forgotten": Plant(
        "tests/conformance/dead_letter/test_selected_letters.py::test_skipped_selected_letter_is_never_sent",
        r"assert 3 == 2",
    ),
    "stopped_sink_left_out": Plant(
        f"{_KEEPER}::test_e9_records_unread_by_a_stopped_sink_are_kept",
        r"assert \d+ == 3",
    ),
    "unstable_offset": Plant(
        f"{_KEEPER}::test_e9_records_are_kept_while_an_open_transaction_may_rewind_the_sink",
        r"assert \d+ == 0",
    ),
    "groups_not_looked_at": Plant(
        f"{_KEEPER}::test_e9_nothing_is_deleted_while_a_foreign_group_reads_the_topic",
        r"assert \d+ == 0",
    ),
    "deletion_not_written_first": Plant(
        f"{_KEEPER}::test_e9_leader_deposed_during_its_decision_deletes_nothing",
        r"assert None",
    ),
    "round_left_out": Plant(
        f"{_HELD}::test_e18_new_task_configs_fence_tasks_that_no_longer_exist",
        r"DID NOT RAISE any of \(WriterFencedError, ProduceError\)",
    ),
    "lane_positions_early": Plant(
        f"{_HELD}::test_e18_no_lane_sends_its_position_before_the_previous_transactions",
        r"assert \d+ == 0",
    ),
    "sync_outside_transaction": Plant(
        f"{_HELD}::test_e18_syncs_are_not_visible_without_their_records",
        r"assert \[b'1=0'\] == \[\]",
    ),
    "unstable_position": Plant(
        f"{_HELD}::test_e18_position_read_waits_for_an_open_transaction",
        r"DID NOT RAISE ReadTimeoutError",
    ),
    "group_metadata_left_out": Plant(
        f"{_STREAM}::test_e19_member_of_a_past_generation_commits_neither_output_nor_offsets",
        r"assert \(1, 0\) == \(0, 1\)",
    ),
    "conflict_waited_out": Plant(
        f"{_INPUT}::test_e20_producer_with_open_offsets_of_the_input_is_fenced",
        r"ReadTimeoutError: Group .* in a transaction that has not ended",
    ),
    "input_read_unstable": Plant(
        f"{_INPUT}::test_e20_read_of_positions_times_out_when_offsets_stay_pending",
        r"DID NOT RAISE ReadTimeoutError",
    ),
    "contribution_outside_transaction": Plant(
        f"{_INPUT}::test_e20_producer_of_an_offset_is_noted_within_the_same_transaction",
        r"""assert '\{"fencepost.*' == 'noted'""",
    ),
    "gap_skipped": Plant(
        "tests/conformance/read/test_plan_input.py::"
        "test_log_that_begins_after_the_position_is_a_gap_until_a_new_one_is_set",
        r"AssertionError: it goes on with \['4', '5', ",
    ),
    "restamped_without_checking": Plant(
        "tests/unit/kafka/codec/test_encode_header.py::test_batch_with_a_changed_bit_is_refused",
        r"DID NOT RAISE CorruptBatchError",
    ),
    "believed_without_checking": Plant(
        "tests/unit/kafka/codec/test_committed.py::test_e22_batch_with_a_changed_bit_is_refused_even_if_aborted",
        r"DID NOT RAISE CorruptBatchError",
    ),
    "offset_deltas_repeated": Plant(
        "tests/unit/kafka/codec/test_encode.py::test_offsets_of_many_records_go_up_by_one",
        r"At index \d+ diff: b'\\x00' != b'\\x02'",
    ),
    "deletion_not_checked": Plant(
        f"{_KEEPER}::test_e9_sink_created_during_a_decision_loses_no_records",
        r"assert 'Connectors have changed' in 'None'",
    ),
    "lost_request_repeated": Plant(
        f"{_CONFORMANCE}/test_nothing_twice.py::"
        "test_e21_lost_request_is_not_resent_and_its_commit_happens_at_most_once"
        "[version 1-end_txn-lost-batch]",
        r"DID NOT RAISE CommitUnknownError",
    ),
    "sequence_not_advanced": Plant(
        f"{_TRAPS}::test_hundreds_of_requests_can_be_in_flight",
        r"assert \[b'0'\] == \[b'0', b'1', ",
    ),
    "partition_twice_in_request": Plant(
        f"{_TRAPS}::test_a_request_never_holds_a_partition_twice",
        r"DID NOT RAISE ValueError",
    ),
    "holders_not_cleared": Plant(
        f"{_INPUT}::test_e20_producer_is_fenced_again_when_it_has_had_the_partition_again[batch]",
        r"assert 0 == 2",
    ),
    "translated_too_far": Plant(
        "tests/unit/builtin/mirror/checkpoint/test_translation.py::test_positions_around_syncs_are_translated[syncs1-expected1]",
        r"assert \{.*: 52\} == \{.*: 51\}",
    ),
    "leader_epoch_left_out": Plant(
        "tests/conformance/task/test_group_batches.py::test_position_of_a_paused_partition_has_the_leader_epoch",
        r"assert Position\(offset=3, epoch=-1\) == \(3, 0\)",
    ),
    "topics_not_asked_for": Plant(
        f"{_STREAM}::test_stream_writes_each_record_of_a_recreated_topic_once[records]",
        r"AssertionError: not within [\d.]+ s; last seen: None",
    ),
    "open_transaction_passed": Plant(
        f"{_DECISION}::test_each_bound_limits_the_deletion[open]",
        r"assert \(90, .*\) == \(30, 'an open transaction'\)",
    ),
    "deletion_not_given_up": Plant(
        f"{_DECISION}::test_deletion_never_passes_the_recorded_offset[None-sinks0]",
        r"False = all\(<generator object test_deletion_never_passes_the_recorded_offset",
    ),
    "range_not_finished": Plant(
        "tests/conformance/read/test_range_input.py::test_a_range_that_begins_below_the_log_is_refused_or_cut_with_a_warning",
        r"DID NOT RAISE",
    ),
    "file_moved_again": Plant(
        f"{_STORE}::test_publish_succeeds_when_a_reader_removed_a_published_file",
        r"assert 'a=2/.*' not in \{'a=2/",
    ),
    "file_replaced": Plant(
        f"{_STORE}::test_files_sink_never_replaces_a_published_file[True]",
        r"DID NOT RAISE DirectoryError",
    ),
    "divided_batch_out_of_order": Plant(
        f"{_COLUMNS}::test_records_divided_by_a_predicate_stay_in_order",
        r"""At index 0 diff: b'\{"line":"2","m":"x"\}' != b'\{"line":"1"\}'""",
    ),
    "records_skipped_while_away": Plant(
        "tests/unit/task/failure/test_tolerance.py::"
        "test_absent_service_fails_the_task_at_the_timeout_without_dropping_records",
        r"DID NOT RAISE FatalError",
    ),
    "decision_outside_transaction": Plant(
        f"{_BATCH}::test_batch_of_a_driver_that_died_after_its_commit_is_skipped",
        r"assert True is False",
    ),
    "digest_not_compared": Plant(
        f"{_CONFORMANCE}/test_write_committer.py::test_batch_with_another_digest_is_refused_and_nothing_is_written",
        r"DID NOT RAISE DecidedOtherwiseError",
    ),
    "filtered_rows_renumbered": Plant(
        f"{_COLUMNS}::test_filtered_records_leave_gaps_in_the_sources",
        r"assert \[0, 1\] == \[0, 2\]",
    ),
}


def errors(out: str) -> list[str]:
    """Return the lines of `out` that say why a test failed: pytest's, and those of a group that Hypothesis raised."""
    return re.findall(r"^(?:E  +|    \| )(\S.*)$", out, re.MULTILINE)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_turns_its_test_red(kafka, plant):
    planted = PLANTS[plant]
    code, out = run(kafka.bootstrap_servers, [planted.test], "-p", f"planted.{plant}", "--tb=short")
    assert code == 1, out
    assert re.search(r"^1 failed in", out, re.MULTILINE), out  # and no error besides
    found = errors(out)
    assert any(re.search(planted.symptom, line) for line in found), f"not {planted.symptom}, but {found}\n{out}"


def test_errors_of_a_failed_test_are_found_and_no_other_lines():
    out = "tests/test_a.py:7: in test_a\n    assert scene.open()\nE   TimeoutError: after 3 s\nE     more\n"
    assert errors(out) == ["TimeoutError: after 3 s", "more"]
    group = "    | Traceback (most recent call last):\n    |   File x\n    | Failed: DID NOT RAISE ValueError\n"
    assert errors(group) == ["Traceback (most recent call last):", "Failed: DID NOT RAISE ValueError"]
