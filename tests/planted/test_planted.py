"""Each planted bug turns a test red, which `make test` runs without the bug as well, where it stands."""

import re

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

_TRAPS = f"{_CONFORMANCE}/test_traps.py"

PLANTS = {
    "no_fence": (
        f"{_CONFORMANCE}/test_fencing.py::test_e2_open_fences_the_predecessor_and_its_open_transaction_is_never_visible"
    ),
    "position_before_fence": f"{_LONE}::test_e3_what_a_zombie_commits_up_to_the_fence_is_not_delivered_again",
    "position_outside_transaction": (
        f"{_LONE}::test_e1_the_position_covers_what_is_visible_when_a_commit_is_withheld[librdkafka-1]"
    ),
    "struck_producer_kept": (
        f"{_CONFORMANCE}/test_strike.py::"
        "test_e5_a_late_end_tears_no_transaction_when_the_struck_writer_is_replaced[librdkafka-abort-same partition]"
    ),  # an abort: what the late end commits can then not be what was wanted, whenever it comes
    "second_commit": f"{_CONFORMANCE}/test_strike.py::test_e6_an_unknown_commit_can_be_neither_repeated_nor_aborted",
    "lane_commits_early": f"{_LONE}::test_no_lane_commits_before_the_transaction_in_front_of_it",
    "one_lane_fenced": f"{_LONE}::test_e2_neither_lane_of_a_zombie_commits_when_its_successor_uses_one",
    "lane_sends_early": f"{_LONE}::test_no_lane_sends_before_the_transaction_in_front_of_it_is_flushed",
    "offset_before_flush": (
        f"{_SINK}::test_an_offset_is_not_committed_when_the_flush_fails_and_its_records_are_read_again"
    ),
    "put_after_revocation": f"{_SINK}::test_nothing_of_a_revoked_partition_is_put_though_it_was_refused_before",
    "fetched_before_revocation": (
        "tests/conformance/task/test_group_input.py::test_what_was_fetched_before_a_revocation_is_not_handed_over[2-records]"
    ),
    "read_before_revocation": (
        "tests/conformance/task/test_group_batches.py::"
        "test_e14_nothing_that_was_read_before_a_revocation_is_handed_over_after_it[10000]"
    ),
    "dead_letter_not_awaited": f"{_SINK}::test_no_offset_passes_a_dead_letter_that_is_not_safe",
    "epoch_letter_not_awaited": (
        f"{_EPOCHS}::test_e13_no_token_and_no_offset_is_durable_before_the_dead_letters_of_an_epoch_are_safe"
    ),
    "epoch_planned_anew": f"{_EPOCHS}::test_e16_an_epoch_that_was_begun_is_finished_with_the_same_ranges[write]",
    "token_not_durable": f"{_EPOCHS}::test_e16_an_epoch_that_was_begun_is_finished_with_the_same_ranges[publish]",
    "shown_before_on_disk": "tests/unit/connector/test_files_store.py::test_e17_what_is_shown_is_on_disk_first",
    "letter_outside_transaction": (
        "tests/conformance/task/test_source_letters.py::"
        "test_e15_a_task_that_is_gone_before_its_commit_leaves_no_dead_letter"
    ),
    "stopped_sink_left_out": f"{_KEEPER}::test_e9_a_sink_counts_while_it_is_stopped",
    "unstable_offset": f"{_KEEPER}::test_e9_nothing_goes_beyond_where_a_transaction_may_put_a_sink",
    "groups_not_looked_at": f"{_KEEPER}::test_e9_nothing_goes_while_a_group_outside_reads",
    "deletion_not_written_first": f"{_KEEPER}::test_e9_a_leader_that_was_deposed_while_it_decided_deletes_nothing",
    "round_left_out": f"{_HELD}::test_e18_a_new_plan_fences_who_is_in_it_no_more",
    "lane_positions_early": (
        f"{_HELD}::test_e18_no_lane_sends_its_position_before_that_of_the_transaction_in_front_of_it"
    ),
    "sync_outside_transaction": f"{_HELD}::test_e18_what_tells_of_records_is_not_seen_without_them",
    "unstable_position": f"{_HELD}::test_e18_a_position_that_a_transaction_may_change_is_waited_for",
    "group_metadata_left_out": (
        f"{_STREAM}::test_e19_a_member_whose_generation_is_over_commits_neither_output_nor_offsets"
    ),
    "conflict_waited_out": (
        f"{_INPUT}::test_e20_who_has_a_transaction_open_over_the_input_is_fenced_at_once_and_its_offsets_never_count"
    ),
    "input_read_unstable": f"{_INPUT}::test_e20_offsets_that_stay_pending_are_an_error_and_no_position",
    "contribution_outside_transaction": (
        f"{_INPUT}::test_e20_an_offset_names_its_producer_in_its_own_transaction_beside_what_was_noted"
    ),
    "gap_skipped": (
        "tests/conformance/read/test_plan_input.py::"
        "test_a_log_that_begins_beyond_the_position_is_a_gap_until_somebody_says_where_to_go_on"
    ),
    "restamped_without_checking": (
        "tests/unit/kafka/batch/test_encode_header.py::test_a_batch_of_which_a_bit_has_changed_is_refused"
    ),
    "believed_without_checking": (
        "tests/unit/kafka/batch/test_committed.py::"
        "test_e22_a_batch_of_which_a_bit_has_changed_is_refused_also_where_it_seems_aborted"
    ),
    "offset_deltas_repeated": "tests/unit/kafka/batch/test_encode.py::test_offsets_of_many_records_go_up_by_one",
    "deletion_not_checked": f"{_KEEPER}::test_e9_a_sink_that_is_created_while_it_is_decided_loses_nothing",
    "lost_request_repeated": (
        f"{_CONFORMANCE}/test_nothing_twice.py::"
        "test_e21_a_lost_request_is_not_sent_again_and_its_transaction_is_committed_once_or_not_at_all"
        "[version 1-end_txn-lost-batch]"
    ),
    "sequence_not_advanced": f"{_TRAPS}::test_hundreds_of_requests_may_be_under_way",
    "partition_twice_in_request": f"{_TRAPS}::test_a_request_never_holds_a_partition_twice",
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_turns_its_test_red(kafka, plant):
    code, out = run(kafka.bootstrap_servers, [PLANTS[plant]], "-p", f"planted.{plant}")
    assert code == 1, out
    assert re.search(r"^1 failed in", out, re.MULTILINE), out  # and no error besides
