"""Which test must fail when which guard is removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PATCHES = Path(__file__).with_name("patches")
RULES = "tests/rules"
"""Tests of rules that only a real Kafka can break: each has a patch here, and each patch breaks one of them."""


@dataclass(frozen=True)
class Mutation:
    """One guard, removed by one patch."""

    patch: str
    """Name of a file in ``patches``, without its suffix."""
    test: str
    """Node id of the test that must fail."""
    also: tuple[str, ...] = ()
    """Node ids of tests that stand on the same guard and may fail too."""

    @property
    def path(self) -> Path:
        """Where the patch is."""
        return PATCHES / f"{self.patch}.patch"

    @property
    def exclusive(self) -> bool:
        """Whether no other test of the rules may fail; guards of the core break whatever is built on them."""
        return self.test.startswith(f"{RULES}/")


_FIELD_NAMES = "tests/unit/test_field_names.py::test_a_"
_FRAGMENTS = "tests/simulation/test_fragments.py::test_"
_OWNERS = f"{RULES}/test_owners.py::test_"
_RESTORING = f"{RULES}/test_restoring.py::test_"
_COPY = f"{_RESTORING}a_stale_local_copy_is_built_anew"
_ROUTING = f"{RULES}/test_routing.py::test_"
_CLIENTS = f"{RULES}/test_clients.py::test_"
_TIME = f"{RULES}/test_time.py::test_"

_CHECKER = "tests/unit/chaos/test_clean_run.py::test_a_run_in_which_the_product_kept_its_promises_is_clean"
_CHECKED = f"{_CHECKER}[0]"
"""The checker of chaos runs, which shares no code with the product, must notice too."""

_AGAIN = "tests/simulation/test_skipped.py::test_a_failed_handler_is_called_again_and_gets_what_was_skipped_meanwhile"
_NUMBERS = "tests/unit/protocol/test_sequencing.py::test_"
_TURNS = "tests/unit/worker/test_turns.py::test_"
_POOLS = "tests/simulation/test_pools.py::test_"
_DOCTOR = "tests/unit/ops/test_doctor.py::test_"
_INSPECTION = "tests/unit/stores/test_inspection.py::test_"
_HANDSHAKE = "tests/unit/kafka/test_handshake.py::test_"
_LIFETIMES = "tests/simulation/test_lifetimes.py::test_"
_ROLES = "tests/rights/test_printed_roles.py::test_"
_REDRIVES = "tests/unit/ops/test_redrive_records.py::test_"
_WEB = "tests/unit/ops/web/"
_LAST_WORDS = "tests/simulation/test_last_words.py::test_"
_RETURNS = "tests/simulation/test_returns.py::test_"
_WHY = "tests/unit/ops/test_why.py::test_"
_METRICS = "tests/simulation/test_metrics.py::test_"
_MEMORY = "tests/simulation/test_memory_of_dialogs.py::test_"
_DECIDING = "tests/simulation/test_decisions_topic.py::test_"
_ENDS = "tests/simulation/test_ends.py::test_"
_PARKING = "tests/simulation/test_parking.py::test_"
_TAKERS = "tests/crashes/test_takers.py::test_"
_OUTAGE = "tests/integration/kafka/test_worker_outage.py::test_"
_BREAKDOWNS = "tests/crashes/test_breakdowns.py::test_"
_COMMANDS = "tests/bad_input/test_commands.py::test_"
_KILLERS = "tests/crashes/test_killers.py::test_"
_TRAPS = "tests/simulation/test_parking_traps.py::test_"
_SWITCH = "tests/simulation/test_queue_switch.py::test_"
_BRAKING = "tests/simulation/test_brake.py::test_"
_LETTERS = "tests/simulation/test_letters.py::test_"
_LIMITS = "tests/bad_input/test_limits.py::test_"
_SENDERS = "tests/simulation/test_senders.py::test_"
_LEAKS = "tests/simulation/test_leaks.py::test_"
_NAMED = "tests/simulation/test_named_timers.py::test_"
_RESEND = "tests/simulation/test_resend.py::test_"
_CLEANUP = "tests/simulation/test_cleanup.py::test_"
_BROKEN = "tests/simulation/test_broken_dialogs.py::test_"
_BOUNDS = "tests/simulation/test_bounds.py::test_"
_MODES = "tests/simulation/test_failure_modes.py::test_"
_RECORDS = "tests/hostile/test_records.py::test_"
_HEALTH = "tests/hostile/test_health.py::test_"
_STRANGERS = "tests/hostile/test_strangers.py::test_"
_PRIVATE = "tests/hostile/test_private_files.py::test_"
_ADMIN = "tests/integration/kafka/test_admin.py::test_"
_TEXT = "tests/hostile/test_text.py::test_"
_ROWS = "tests/simulation/test_waiting_rows.py::test_"
_ONE_REFUSED = "tests/simulation/test_refused_records.py::test_"
_DECISIONS = "tests/simulation/test_decisions.py::test_"
_REFUSED = "tests/unit/worker/test_refused_destinations.py::test_"
_QUEUES = "tests/simulation/test_refused_destinations.py::test_"
_LOG_CLOCK = "tests/unit/worker/test_log_clock.py::test_"
_STALE = "tests/unit/test_stale_dialogs.py::test_"
_GROUPS = "tests/simulation/test_groups.py::test_"
_SETTINGS = "tests/integration/kafka/test_topic_settings.py::test_"
_PUBLICATIONS = "tests/simulation/test_publications.py::test_"
_FEEDS = "tests/simulation/test_feeds.py::test_"
_KAFKA_FEEDS = "tests/integration/test_feeds.py::test_"
_COPIES = "tests/unit/kafka/test_damaged_copies.py::test_"
_STANDSTILL = "tests/integration/kafka/test_standstill.py::test_"
_DAMAGED = "tests/integration/kafka/test_damaged_log.py::test_"
"""Guards of the core: a law of the simulation or of the machine breaks without them, beside others."""

MUTATIONS = (
    Mutation(
        "01-only-moved-positions",
        f"{_OWNERS}a_timer_that_fires_for_an_owner_of_yesterday_is_not_committed",
        also=(
            f"{_OWNERS}what_a_lane_finishes_after_the_partition_came_back_is_refused",
            f"{_OWNERS}a_step_from_before_the_partition_came_back_is_not_committed_after",
        ),
    ),
    Mutation(
        "02-flights-of-gone-partitions", f"{_OWNERS}a_step_from_before_the_partition_came_back_is_not_committed_after"
    ),
    Mutation(
        "03-results-of-gone-partitions", f"{_OWNERS}what_a_lane_finishes_after_the_partition_came_back_is_refused"
    ),
    Mutation("04-doubt-committed-again", f"{_OWNERS}a_commit_that_timed_out_is_never_committed_again"),
    Mutation(
        "05-step-waits-for-handlers",
        f"{_OWNERS}a_slow_handler_costs_neither_the_partition_nor_the_transaction",
        also=(f"{_OWNERS}what_a_lane_finishes_after_the_partition_came_back_is_refused",),
    ),
    Mutation("06-end-counts-committed-rows-only", f"{_RESTORING}a_restore_waits_for_the_rows_of_an_open_transaction"),
    Mutation("07-unstable-group-offset", f"{_RESTORING}a_restore_knows_the_groups_offset_before_it_takes_the_end"),
    Mutation("08-end-before-group-offset", f"{_RESTORING}a_restore_knows_the_groups_offset_before_it_takes_the_end"),
    Mutation("09-old-copy-trusted", f"{_COPY}[too_old]"),
    Mutation("10-copy-of-another-topic-trusted", f"{_COPY}[of_another_topic]"),
    Mutation("11-copy-from-before-the-log-start-trusted", f"{_COPY}[below_the_log_start]"),
    Mutation("12-no-group-offset-means-a-new-start", f"{_RESTORING}positions_outlive_the_groups_offsets"),
    Mutation("13-group-offset-wins", f"{_RESTORING}positions_of_the_row_win_over_the_groups_offsets"),
    Mutation("14-offset-without-a-row-ignored", f"{_RESTORING}an_offset_without_a_row_stops_the_partition"),
    Mutation("15-recreated-topics-taken-for-the-old", f"{_RESTORING}a_recreated_queue_stops_its_partition"),
    Mutation("16-lost-input-jumped-over", f"{_RESTORING}an_input_that_lost_its_beginning_stops_its_partition"),
    Mutation("17-misrouted-command-carried-out", f"{_ROUTING}a_misrouted_command_is_forwarded"),
    Mutation("18-misrouted-envelope-taken", f"{_ROUTING}a_misrouted_envelope_is_set_aside"),
    Mutation(
        "19-partition-left-to-the-client",
        f"{_ROUTING}a_destination_that_grew_gets_its_records_where_the_catalog_says",
    ),
    Mutation("20-growth-not-noticed", f"{_ROUTING}a_topic_of_its_own_that_grew_stops_the_worker"),
    Mutation(
        "21-failed-destination-stops-everything",
        f"{_ROUTING}a_destination_that_fails_delays_what_goes_there_and_nothing_else",
    ),
    Mutation(
        "22-offsets-behind-the-records",
        f"{_CLIENTS}the_offsets_are_sent_before_the_records_and_accepted_before_the_commit",
    ),
    Mutation(
        "537-failure-not-noticed-before-the-commit",
        "tests/integration/kafka/test_refused_records.py::test_the_one_record_that_is_too_large_for_its_topic_is_found[3]",
    ),
    Mutation("23-any-thread", f"{_CLIENTS}a_second_thread_may_not_touch_the_consumer"),
    Mutation("24-extras-stay-assigned", f"{_CLIENTS}a_revoked_partition_takes_its_commands_along"),
    Mutation("25-slot-not-used", f"{_CLIENTS}a_restart_in_the_same_slot_ends_what_its_predecessor_left_open"),
    Mutation("26-minutes-to-end-a-transaction", f"{_CLIENTS}a_transaction_nobody_ends_hides_other_senders_for_seconds"),
    Mutation("40-a-number-twice", f"{_NUMBERS}a_number_is_accepted_once"),
    Mutation("41-a-gap-jumped-over", f"{_MEMORY}held_messages_follow_in_order_when_the_gap_closes"),
    Mutation("42-closed-and-forgotten", f"{_MEMORY}a_replay_after_the_end_has_no_effect"),
    Mutation("43-forgotten-by-the-wall-clock", f"{_MEMORY}a_tombstone_is_forgotten_only_when_log_time_has_passed"),
    Mutation("44-dead-letters-without-bytes", f"{_ENDS}the_fourth_failure_ends_the_dialog_with_error_500"),
    Mutation("45-waiting-rows-not-written", f"{_MEMORY}waiting_rows_survive_a_crash"),
    Mutation("46-a-late-first-message-taken", f"{_ENDS}a_first_message_that_comes_too_late_is_refused"),
    Mutation("47-a-failed-run-takes-effect", f"{_ENDS}a_failed_run_leaves_nothing_behind"),
    Mutation("120-damaged-records-believed", f"{_DAMAGED}a_flipped_bit_in_a_log_segment_is_noticed_by_every_reader"),
    Mutation("121-limits-on-packed-bytes", f"{_SETTINGS}a_brokers_limit_is_on_what_is_unpacked[gzip-queue]"),
    Mutation(
        "122-unsafe-settings-worked-on",
        f"{_SETTINGS}a_worker_does_not_start_on_unsafe_settings[state-cleanup.policy-delete-compact]",
    ),
    Mutation(
        "123-settings-of-before-kept", f"{_SETTINGS}apply_brings_topics_to_what_is_needed_and_leaves_better_choices"
    ),
    Mutation("124-a-short-scan-believed", f"{_COPIES}a_scan_does_not_end_early_without_a_word"),
    Mutation("125-a-copy-of-another-partition", f"{_COPIES}a_copy_of_another_partition_comes_back_empty"),
    Mutation("126-damage-forgotten-by-a-death", f"{_COPIES}what_a_damaged_copy_was_is_known_to_the_next_process"),
    Mutation(
        "127-nothing-taken-for-an-offset",
        "tests/unit/kafka/test_answers.py::test_an_answer_without_an_offset_is_no_offset[-1001]",
    ),
    Mutation("129-damage-not-told", f"{_RESTORING}a_damaged_local_copy_is_thrown_away_and_told"),
    Mutation("128-rows-of-before-taken", f"{_RESTORING}a_restore_from_before_what_is_committed_begins_again"),
    Mutation("50-followers-overtake", f"{_PARKING}a_dialog_waits_behind_its_failed_message_and_no_other_does"),
    Mutation("51-attempts-of-before-forgotten", f"{_PARKING}what_waits_and_how_often_it_failed_survive_a_crash"),
    Mutation("52-parks-not-restored", f"{_PARKING}what_waits_and_how_often_it_failed_survive_a_crash"),
    Mutation("53-unlocked-after-the-head", f"{_PARKING}a_dialog_waits_behind_its_failed_message_and_no_other_does"),
    Mutation(
        "54-parked-bytes-not-kept-at-the-end",
        f"{_PARKING}given_up_on_after_its_schedule_head_and_followers_are_kept_in_order",
    ),
    Mutation("55-an-end-taken-out-of-turn", f"{_PARKING}a_dialog_waits_behind_its_failed_message_and_no_other_does"),
    Mutation("56-a-decision-twice", f"{_DECISIONS}two_operators_decide_once"),
    Mutation("57-held-is-tried-again", f"{_PARKING}hold_keeps_the_dialog_waiting_until_its_lifetime_ends"),
    Mutation("58-a-timer-tried-again-at-once", f"{_PARKING}a_timer_follows_its_policy_without_parking[True]"),
    Mutation("59-edited-without-a-look", f"{_DECISIONS}an_edit_that_is_not_what_its_type_says_changes_nothing"),
    Mutation("60-a-retry-dropped-by-a-message", f"{_TRAPS}a_timer_that_waits_survives_messages_of_its_dialog"),
    Mutation("61-an-end-held-and-parked", f"{_TRAPS}an_end_that_came_before_its_predecessor_waits_as_well"),
    Mutation("64-a-parked-end-forgotten", f"{_TRAPS}an_end_that_is_parked_when_this_side_gives_up_is_heard"),
    Mutation("65-nothing-announced", f"{_KILLERS}a_message_that_kills_is_given_up_on_after_its_deaths[5]"),
    Mutation("66-deaths-not-counted", f"{_KILLERS}a_message_that_kills_is_given_up_on_after_its_deaths[5]"),
    Mutation(
        "67-a-suspect-not-alone",
        "tests/unit/worker/test_suspicion.py::test_what_runs_alone_waits_for_every_other_partition",
    ),
    Mutation("69-the-living-charged", f"{_KILLERS}a_process_that_lives_has_not_died_of_anything"),
    Mutation("70-all-are-suspect", f"{_KILLERS}what_arrives_after_the_start_is_not_suspect"),
    Mutation(
        "68-a-copy-of-what-is-held",
        "tests/unit/protocol/test_endpoint.py::test_a_copy_of_what_is_held_stays_one_when_the_dialog_has_broken",
    ),
    Mutation("71-off-and-handled", f"{_SWITCH}an_operator_turns_a_queue_off_and_on"),
    Mutation(
        "72-what-waited-for-the-brake-forgotten", f"{_BRAKING}a_restart_begins_without_the_brake_and_loses_nothing"
    ),
    Mutation(
        "73-limits-count-what-came-while-off",
        f"{_SWITCH}the_limit_counts_what_comes_behind_a_failure_once_the_queue_is_on",
    ),
    Mutation("160-invisible-characters-shown", f"{_TEXT}an_error_from_outside_is_printed_as_text"),
    Mutation("161-lines-without-a-margin", f"{_TEXT}lines_from_outside_never_begin_where_ours_do"),
    Mutation("162-events-not-looked-at", f"{_RECORDS}an_event_that_is_none_is_left_out_and_named[an end nobody says]"),
    Mutation("163-connections-without-end", f"{_HEALTH}a_connection_that_goes_on_saying_little_is_ended"),
    Mutation(
        "164-connections-without-number",
        f"{_HEALTH}as_many_silent_connections_as_descriptors_cost_the_supervisor_none",
    ),
    Mutation(
        "165-no-room-for-a-worker-ends-all",
        f"{_HEALTH}a_worker_that_cannot_be_started_just_now_is_started_later",
    ),
    Mutation("166-state-stays-open-to-others", f"{_PRIVATE}what_was_open_to_others_is_closed"),
    Mutation(
        "167-topics-shared-by-two-services",
        f"{_ADMIN}a_service_that_would_share_its_topics_with_another_is_refused[False]",
    ),
    Mutation("168-one-transactional-id-for-two", f"{_ADMIN}no_two_workers_of_two_services_have_one_transactional_id"),
    Mutation("240-no-room-without-a-commit", f"{_STRANGERS}invented_peers_do_not_outgrow_the_cache"),
    Mutation("169-any-process-is-ended", f"{_PRIVATE}a_process_that_is_no_broker_is_not_ended"),
    Mutation("74-rollbacks-not-counted", f"{_SWITCH}five_rollbacks_in_a_row_turn_the_queue_off[5]"),
    Mutation(
        "224-one-peer-stops-the-queue",
        f"{_BRAKING}a_peer_with_an_open_dialog_is_not_stopped_by_another_after_a_restart",
    ),
    Mutation(
        "225-others-are-enough",
        "tests/unit/test_brake.py::test_however_many_others_fail_a_peer_must_fail_itself[100-5]",
    ),
    Mutation(
        "227-announced-for-ever", f"{_BRAKING}what_arrives_behind_suspects_is_taken_and_leaves_the_worker_at_rest"
    ),
    Mutation("226-braked-without-a-limit", f"{_BRAKING}one_peer_that_is_braked_stops_the_queue_for_nobody_else"),
    Mutation("75-never-braked", f"{_BRAKING}a_broken_deploy_does_not_dead_letter_the_day"),
    Mutation("76-one-probe-for-ever", f"{_BRAKING}one_that_asks_to_be_called_later_has_had_its_turn[False]"),
    Mutation("77-letters-closed-twice", f"{_LETTERS}letters_are_open_until_they_are_closed_once"),
    Mutation("78-a-failure-told-as-handled", f"{_DECISIONS}the_owner_tells_what_became_of_what_was_given_back"),
    Mutation(
        "79-deaths-forgotten-by-the-switch",
        "tests/unit/worker/test_suspicion.py::test_what_was_not_tried_keeps_its_deaths",
    ),
    Mutation("87-a-second-failure-goes-to-the-end", f"{_MODES}a_second_failure_does_not_reorder"),
    Mutation("88-a-wait-that-is-over-is-kept", f"{_MODES}nothing_is_left_of_a_wait_that_is_over"),
    Mutation("89-what-waits-expires", f"{_MODES}what_is_parked_does_not_expire"),
    Mutation("90-a-wait-ends-behind-longer-ones", f"{_MODES}a_long_delay_holds_up_no_shorter_one[False]"),
    Mutation("91-shown-without-its-key", f"{_MODES}the_key_is_kept_on_every_hop"),
    Mutation("92-letters-in-one-partition", f"{_MODES}the_key_is_kept_on_every_hop"),
    Mutation("93-what-waits-pauses-the-queue", f"{_MODES}a_poisoned_dialog_takes_no_room_from_healthy_ones"),
    Mutation(
        "94-async-handlers-not-awaited",
        f"{_MODES}an_async_handler_is_done_before_the_next_of_its_dialog_begins[threaded]",
    ),
    Mutation("95-letters-outlive-their-bytes", f"{_MODES}a_letter_is_not_open_longer_than_its_bytes_are_there"),
    Mutation(
        "170-periods-that-contradict-each-other",
        "tests/periods/test_periods.py::test_periods_that_contradict_each_other_are_refused[inbox_kept-86400000000]",
    ),
    Mutation("96-deadlines-entered-again", f"{_MEMORY}deadlines_of_a_dialog_that_lives_long_do_not_pile_up"),
    Mutation("80-duplicates-taken-again", f"{_CHECKER}[1]"),
    Mutation("81-position-of-what-was-read", _CHECKED),
    Mutation("82-nothing-kept-of-what-is-set-aside", _CHECKED),
    Mutation("83-no-tombstones", _CHECKED),
    Mutation("84-commands-carried-out-again", _CHECKED),
    Mutation("85-input-that-never-pauses", f"{_SWITCH}input_pauses_when_too_much_waits_and_no_dialog_breaks"),
    Mutation("86-off-is-forgotten", f"{_SWITCH}a_policy_turns_its_queue_off_and_the_message_stays_the_head"),
    Mutation(
        "140-lists-of-any-length",
        f"{_LIMITS}nothing_is_built_of_a_list_before_its_length_is_known_to_be_allowed[1.49 million ends]",
    ),
    Mutation(
        "180-accepted-early-beside-what-is-held",
        f"{_ROWS}what_is_held_keeps_its_number_while_what_closes_its_gap_waits",
    ),
    Mutation(
        "181-front-of-the-rows-forgotten",
        f"{_ROWS}rows_in_front_of_all_others_do_not_replace_those_of_an_earlier_owner",
    ),
    Mutation(
        "182-backlog-of-lost-partitions-kept",
        "tests/unit/worker/test_giving_back.py::test_what_was_read_of_a_partition_is_forgotten_with_it",
    ),
    Mutation(
        "183-a-late-begin-keeps-its-old-limit",
        f"{_MEMORY}what_was_kept_for_longer_than_a_dialog_may_begin_begins_it_all_the_same",
    ),
    Mutation("184-a-tick-counts-before-the-queue-is-read", f"{_MEMORY}a_tick_does_not_count_while_the_queue_is_unread"),
    Mutation("185-a-gap-asked-for-after-it-closed", f"{_MEMORY}a_gap_that_closes_in_time_is_not_asked_for"),
    Mutation(
        "186-an-overdue-attempt-not-committed",
        "tests/slow_handlers/test_limits.py::"
        "test_a_run_over_the_limit_is_committed_as_an_attempt_although_nothing_else_happens",
    ),
    Mutation(
        "130-overtaken-by-what-was-said-later",
        f"{_REFUSED}what_is_said_while_a_commit_fails_does_not_overtake_what_was_refused",
    ),
    Mutation(
        "131-withdrawn-with-the-next-step",
        f"{_QUEUES}what_a_queue_refuses_is_kept_by_the_transaction_that_would_have_sent_it",
    ),
    Mutation(
        "132-an-owner-of-today-overtakes",
        f"{_ONE_REFUSED}what_is_said_before_a_refused_dialog_has_its_turn_does_not_go_ahead",
    ),
    Mutation(
        "133-each-partition-finds-out-for-itself",
        f"{_QUEUES}what_one_partition_learns_of_a_queue_does_not_reorder_the_dialogs_of_another",
    ),
    Mutation(
        "138-the-machines-clock-believed",
        f"{_LOG_CLOCK}what_was_read_shows_that_it_is_late",
    ),
    Mutation("139-ahead-of-the-log", f"{_LOG_CLOCK}what_was_written_shows_that_it_is_early"),
    Mutation(
        "135-expired-and-handled",
        f"{_ENDS}a_service_that_comes_up_handles_only_dialogs_that_still_live[10-False]",
    ),
    Mutation("136-asked-for-too-late-without-a-word", f"{_STALE}a_dialog_kept_after_its_handler_returned_raises[send]"),
    Mutation("137-past-its-limit-without-a-word", f"{_STALE}a_handler_past_its_time_limit_is_told_at_its_next_request"),
    Mutation(
        "134-pulled-into-a-group-by-its-name",
        f"{_GROUPS}a_peer_cannot_pull_another_ones_dialog_into_its_group[False]",
    ),
    Mutation("100-lanes-ask-the-consumer", f"{_TIME}an_idle_queue_is_brought_forward_by_a_genuine_tick"),
    Mutation("141-held-without-end", f"{_BOUNDS}a_dialog_holds_only_so_many_bytes_behind_a_gap[False-False]"),
    Mutation("142-missing-without-end", f"{_BOUNDS}a_dialog_that_is_over_misses_only_so_many_numbers[True]"),
    Mutation(
        "143-delayed-without-end",
        f"{_BOUNDS}answers_wait_for_a_queue_that_takes_none_up_to_a_limit_and_then_their_questions_do",
    ),
    Mutation(
        "110-what-follows-a-refused-record-overtakes-it",
        f"{_ONE_REFUSED}one_answer_that_its_destination_does_not_take_ends_its_dialog_alone",
    ),
    Mutation(
        "111-the-one-record-is-not-looked-for",
        "tests/integration/kafka/test_refused_records.py::"
        "test_the_one_record_that_is_too_large_for_its_topic_is_found[3]",
    ),
    Mutation(
        "112-forbidden-for-ever",
        f"{_ONE_REFUSED}a_destination_that_may_not_be_written_to_delays_its_dialogs_and_then_breaks_them",
    ),
    Mutation("113-no-work-without-events", f"{_ONE_REFUSED}events_that_cannot_be_written_stop_no_work"),
    Mutation(
        "114-a-letter-that-is-refused-is-lost",
        f"{_ONE_REFUSED}a_record_that_its_own_topic_does_not_take_sets_its_partition_aside[dead-letter]",
    ),
    Mutation(
        "115-one-killed-while-loading-ends-all",
        "tests/unit/ops/test_supervision.py::test_a_process_that_is_killed_while_it_loads_is_started_again",
    ),
    Mutation(
        "116-commands-without-a-limit",
        f"{_ONE_REFUSED}a_handler_learns_at_once_that_what_it_asks_for_fits_no_command",
    ),
    Mutation(
        "117-a-last-commit-for-ever",
        "tests/unit/worker/test_stopping.py::test_a_worker_that_was_told_to_stop_does_not_try_to_commit_for_ever",
    ),
    Mutation(
        "101-headers-asked-for-twice",
        f"{_BREAKDOWNS}a_record_with_a_header_that_cannot_be_read_is_set_aside[queue-headers0]",
    ),
    Mutation(
        "102-forwarded-with-its-headers",
        f"{_COMMANDS}a_command_in_the_wrong_partition_is_forwarded_and_takes_effect_once[unreadable]",
    ),
    Mutation("103-letters-of-no-offset", f"{_BREAKDOWNS}a_letter_before_the_first_record_is_not_open[-1]"),
    Mutation(
        "104-a-broken-step-is-committed", f"{_BREAKDOWNS}a_message_around_whose_handler_our_code_fails_is_kept[receive]"
    ),
    Mutation(
        "105-commands-are-not-suspect", f"{_BREAKDOWNS}a_command_that_kills_its_process_is_refused_after_its_deaths"
    ),
    Mutation("106-not-one-by-one", f"{_BREAKDOWNS}what_cannot_be_committed_is_found_among_many"),
    Mutation("144-steps-of-any-size", f"{_BOUNDS}a_step_takes_on_only_so_many_bytes_and_leaves_nothing_out"),
    Mutation("145-steps-of-any-length", f"{_BOUNDS}a_step_that_took_too_long_leaves_the_rest_to_the_next"),
    Mutation("146-what-is-at-hand-counts-as-read", f"{_BOUNDS}a_step_that_took_too_long_leaves_the_rest_to_the_next"),
    Mutation(
        "217-old-rows-made-good",
        "tests/bad_input/test_state.py::test_a_partition_whose_rows_stay_older_than_what_is_committed_is_set_aside",
    ),
    Mutation(
        "216-old-rows-asked-for-for-ever",
        "tests/bad_input/test_state.py::test_a_partition_whose_rows_stay_older_than_what_is_committed_is_set_aside",
    ),
    Mutation(
        "215-fenced-with-what-is-in-memory",
        "tests/bad_input/test_state.py::test_a_damaged_row_sets_its_partition_aside_and_the_others_go_on[an endpoint cut short]",
    ),
    Mutation(
        "210-not-ready-ends-a-worker",
        "tests/unit/worker/test_joining.py::test_a_worker_that_starts_while_its_cluster_is_not_ready_waits",
    ),
    Mutation(
        "200-an-outage-is-no-news",
        f"{_OUTAGE}an_idle_worker_is_not_ready_while_its_broker_is_away[told by its client]",
    ),
    Mutation(
        "201-brokers-lost-without-a-word",
        f"{_OUTAGE}an_idle_worker_is_not_ready_while_its_broker_is_away[told by its client]",
    ),
    Mutation(
        "212-a-cluster-without-a-controller-is-away",
        "tests/integration/kafka/test_connection.py::test_joining_while_requests_time_out_tells_whether_a_broker_is_there",
    ),
    Mutation(
        "211-an-open-transaction-ends-a-worker",
        "tests/integration/kafka/test_worker_outage.py::test_an_open_transaction_holds_up_its_partition_alone",
    ),
    Mutation("190-invented-senders-are-believed", f"{_SENDERS}invented_senders_leave_their_bytes_and_nothing_else"),
    Mutation("191-the-catalog-as-it-was", f"{_SENDERS}a_service_that_was_made_a_moment_ago_is_no_invented_sender"),
    Mutation(
        "228-a-catalog-that-fails-is-asked-for-each",
        "tests/integration/kafka/test_catalog_outage.py::"
        "test_a_catalog_that_could_not_be_read_is_not_read_for_each_unknown_sender",
    ),
    Mutation(
        "231-a-commit-without-an-answer-is-work",
        "tests/unit/worker/test_committing.py::test_a_worker_whose_commit_is_not_answered_is_not_ready",
    ),
    Mutation("229-a-refusal-is-no-answer", "tests/unit/kafka/test_watch.py::test_a_refusal_is_an_answer"),
    Mutation(
        "230-a-look-asks-about-the-login",
        "tests/unit/kafka/test_watch.py::test_a_look_that_nobody_answers_asks_nothing_else[-185]",
    ),
    Mutation("192-refused-without-a-catalog", f"{_SENDERS}while_the_catalog_cannot_be_read_nobody_is_refused"),
    Mutation("193-one-peer-brakes-all", "tests/unit/test_brake.py::test_of_another_peer_at_most_half_counts"),
    Mutation("194-a-brake-is-on-for-all", f"{_BRAKING}one_peer_brakes_its_own_messages_alone"),
    Mutation(
        "195-large-groups-stay",
        "tests/simulation/test_large_groups.py::test_large_states_leave_memory_when_their_dialogs_have_nothing_to_do",
    ),
    Mutation("202-decoded-before-it-is-announced", f"{_TAKERS}nothing_is_decoded_before_it_is_announced_and_committed"),
    Mutation(
        "203-taken-however-many-died",
        f"{_TAKERS}a_record_that_kills_before_it_is_in_a_lane_is_set_aside_with_its_bytes[ACK-when_decoded]",
    ),
    Mutation(
        "204-only-the-first-of-a-lane-is-announced",
        f"{_TAKERS}an_envelope_that_kills_before_its_handler_is_set_aside[ACK]",
    ),
    Mutation(
        "207-a-reader-that-stands-still-is-kept",
        "tests/integration/kafka/test_restore.py::test_a_reader_that_stands_still_is_replaced_and_reads_on_where_it_was",
    ),
    Mutation(
        "241-a-standstill-is-kept",
        f"{_STANDSTILL}a_worker_that_gets_nothing_makes_another_connection_and_goes_on",
    ),
    Mutation("242-what-is-held-back-stands-still", f"{_STANDSTILL}an_input_that_is_held_back_does_not_stand_still"),
    Mutation("243-open-transactions-stand-still", f"{_STANDSTILL}an_open_transaction_and_silence_are_waited_for"),
    Mutation(
        "244-a-lagging-broker-ends-the-worker",
        "tests/integration/kafka/test_restore.py::test_a_reader_whose_broker_has_less_than_was_there_begins_again_elsewhere",
    ),
    Mutation(
        "245-a-damaged-copy-ends-its-worker-when-it-is-closed",
        f"{_COPIES}a_copy_that_cannot_be_written_to_its_end_is_closed_all_the_same",
    ),
    Mutation("205-given-up-on-for-ever", f"{_TAKERS}an_envelope_that_kills_before_its_handler_is_set_aside[MESSAGE]"),
    Mutation(
        "206-taken-among-others",
        f"{_TAKERS}a_record_that_kills_before_it_is_in_a_lane_is_set_aside_with_its_bytes[ACK-when_decoded]",
    ),
    Mutation(
        "220-what-a-record-became-waits-anew",
        "tests/unit/worker/test_suspicion.py::test_what_a_record_became_goes_on_in_its_place",
    ),
    Mutation("221-the-backlog-goes-first", f"{_TAKERS}the_backlog_waits_for_what_must_run_alone"),
    Mutation(
        "222-what-is-set-aside-stays-a-suspect",
        f"{_TAKERS}what_was_set_aside_is_remembered_as_no_suspect_any_more[False]",
    ),
    Mutation("223-commands-that-wait-are-read-on", f"{_TAKERS}commands_that_wait_are_no_more_than_a_step_reads"),
    Mutation(
        "250-a-client-fills-a-group-without-end",
        "tests/simulation/test_groups.py::test_a_client_begins_no_dialog_in_a_full_group",
    ),
    Mutation(
        "251-the-next-record-is-blamed",
        "tests/integration/kafka/test_refused_records.py::test_a_refusal_while_records_are_produced_is_no_fault_of_the_next_record",
    ),
    Mutation(
        "252-a-second-server-on-the-same-data",
        "tests/integration/test_embedded_broker.py::"
        "test_data_is_kept_over_stop_and_kill_and_a_second_broker_on_it_is_refused",
    ),
    Mutation(
        "460-a-killed-broker-starts-at-once",
        "tests/integration/test_embedded_broker.py::test_a_restart_after_a_kill_ends_the_transactions_that_were_open",
    ),
    Mutation(
        "461-an-old-read-model-is-believed",
        "tests/acceptance/test_status.py::test_a_status_is_the_sum_of_what_whole_topics_say",
    ),
    Mutation(
        "462-a-topic-made-anew-keeps-its-old-rows",
        "tests/acceptance/test_status.py::test_a_status_is_the_sum_of_what_whole_topics_say",
    ),
    Mutation(
        "463-an-overtaken-reader-leaves-a-hole",
        "tests/unit/ops/test_read_model.py::test_a_reader_that_was_overtaken_leaves_no_hole",
    ),
    Mutation(
        "464-a-waiting-row-that-goes-marks-nobody",
        "tests/unit/ops/test_read_model.py::test_a_waiting_record_belongs_to_the_side_that_it_is_for",
    ),
    Mutation(
        "253-what-does-not-fit-breaks-the-dialog",
        "tests/simulation/test_releases.py::test_a_body_that_does_not_fit_is_held_and_handled_by_the_release_with_the_upgrade",
    ),
    Mutation(
        "254-old-bodies-are-not-upgraded",
        "tests/simulation/test_releases.py::test_old_and_new_bodies_are_handled_by_the_new_release_and_new_ones_by_the_old",
    ),
    Mutation(
        "255-later-schemas-are-not-looked-up",
        "tests/simulation/test_later_schemas.py::test_an_envelope_of_a_later_schema_is_handled_once_the_catalog_has_the_schema",
    ),
    Mutation(
        "256-closed-dialogs-stay-in-a-named-group",
        "tests/simulation/test_shared_groups.py::test_the_state_outlives_its_dialogs_and_its_row_does_not_grow",
    ),
    Mutation(
        "257-the-state-of-a-named-group-goes-with-its-dialogs",
        "tests/simulation/test_shared_groups.py::test_the_state_outlives_its_dialogs_and_its_row_does_not_grow",
    ),
    Mutation(
        "258-anybody-names-groups",
        "tests/simulation/test_shared_groups.py::test_the_target_refuses_a_service_that_permits_itself",
    ),
    Mutation(
        "259-unknown-services-are-waited-for",
        "tests/simulation/test_unknown_services.py::test_a_misspelt_service_fails_the_handler_and_the_message_is_held",
    ),
    Mutation(
        "260-fields-of-newer-state-are-lost",
        "tests/simulation/test_releases.py::test_an_older_release_keeps_the_fields_of_state_that_it_does_not_know",
    ),
    Mutation(
        "261-newer-state-counts-as-a-failure",
        "tests/bad_input/test_state.py::test_a_message_whose_state_is_newer_waits_for_the_newer_release",
    ),
    Mutation(
        "262-newer-state-is-replaced",
        "tests/simulation/test_releases.py::test_state_of_a_newer_version_is_left_alone_whatever_a_handler_does[replace]",
    ),
    Mutation(
        "264-newer-state-is-deleted",
        "tests/simulation/test_releases.py::test_state_of_a_newer_version_is_left_alone_whatever_a_handler_does[delete]",
    ),
    Mutation(
        "265-newer-state-may-be-caught",
        "tests/simulation/test_releases.py::test_state_of_a_newer_version_is_left_alone_whatever_a_handler_does[catch]",
    ),
    Mutation(
        "263-state-may-lose-a-field",
        "tests/unit/protocol/test_release_changes.py::test_state_that_loses_a_field_is_refused[Stock-Renamed]",
    ),
    Mutation(
        "270-handlers-set-timers-that-never-fire",
        "tests/unit/test_dialog.py::test_a_timer_that_would_never_fire_is_refused",
    ),
    Mutation(
        "271-commands-set-timers-that-never-fire",
        f"{_COMMANDS}a_bad_command_has_its_outcome_and_harms_nobody[a timer with the largest possible time]",
    ),
    Mutation(
        "272-a-body-where-none-belongs-has-no-code",
        "tests/bad_input/test_wire.py::test_a_bad_record_has_its_outcome_and_harms_nobody[a body for a message type without a body]",
    ),
    Mutation(
        "273-dialogs-without-a-handler-break-unseen",
        f"{_BROKEN}an_expired_dialog_without_a_handler_is_reported_by_its_own_side",
    ),
    Mutation("274-refusals-are-not-reported", f"{_BROKEN}a_refused_dialog_is_reported_by_the_service_that_refuses_it"),
    Mutation(
        "275-errors-before-the-first-message-are-dropped",
        f"{_BROKEN}an_error_that_comes_before_the_first_message_is_reported",
    ),
    Mutation("276-each-broken-dialog-is-an-event", f"{_BROKEN}a_flood_of_broken_dialogs_is_one_event_a_minute"),
    Mutation("277-invented-codes-are-kinds", f"{_BROKEN}codes_that_a_peer_invents_are_one_kind"),
    Mutation("278-kinds-of-broken-dialogs-pile-up", f"{_BROKEN}only_so_many_kinds_are_remembered"),
    Mutation(
        "279-clients-that-were-told-are-reported",
        "tests/unit/test_local.py::test_a_request_that_is_told_of_its_error_is_not_reported_to_operators",
    ),
    Mutation("290-a-failed-handler-publishes", f"{_PUBLICATIONS}a_handler_that_fails_has_published_nothing"),
    Mutation(
        "291-a-refused-publication-leaves-its-handler-done",
        f"{_PUBLICATIONS}a_record_that_its_topic_refuses_undoes_its_handler_alone",
    ),
    Mutation(
        "292-handlers-publish-to-a-blocked-topic",
        f"{_PUBLICATIONS}a_topic_that_is_gone_costs_no_step_after_it_was_noticed",
    ),
    Mutation("293-refused-publications-are-forgotten", f"{_PUBLICATIONS}a_policy_decides_about_a_refused_record"),
    Mutation("294-published-into-the-namespace", f"{_PUBLICATIONS}a_topic_of_the_namespace_is_not_published_to"),
    Mutation(
        "295-works-without-its-plain-topics", f"{_PUBLICATIONS}a_worker_does_not_start_without_its_topics[deleted]"
    ),
    Mutation(
        "296-a-plain-topic-that-went-ends-the-worker",
        f"{_PUBLICATIONS}a_worker_that_joins_again_works_without_a_topic_that_went_meanwhile",
    ),
    Mutation(
        "297-keys-in-other-partitions-than-javas",
        "tests/integration/test_publications.py::"
        "test_a_record_is_in_the_topic_with_the_answer_and_not_if_the_handler_fails",
    ),
    Mutation(
        "298-published-records-taken-for-envelopes",
        f"{_PUBLICATIONS}what_else_a_topic_refuses_leaves_the_records_of_others_alone",
    ),
    Mutation(
        "310-a-skipped-message-loses-its-failure",
        "tests/simulation/test_decisions.py::test_skip_keeps_the_bytes_and_goes_on",
    ),
    Mutation(
        "320-a-simulation-hides-state-that-cannot-be-kept",
        "tests/unit/test_slips.py::test_state_that_is_too_large_is_a_failure_that_a_simulation_raises",
        also=tuple(
            f"tests/unit/test_slips.py::test_state_that_cannot_be_kept_is_a_failure_that_a_simulation_raises[{name}]"
            for name in ("field", "none", "key")
        ),
    ),
    Mutation(
        "321-a-flood-of-refusals-floods-the-log",
        "tests/unit/test_slips.py::test_a_refused_command_is_told_in_the_log_and_a_flood_of_them_in_a_few_lines",
    ),
    Mutation(
        "420-a-command-leaves-held-records-of-a-closed-dialog",
        f"{_CLEANUP}a_cleanup_keeps_the_bytes_of_all_that_waits",
        also=(f"{_CLEANUP}an_end_by_a_command_leaves_no_record_that_arrived_early[True]",),
    ),
    Mutation(
        "421-a-tombstone-does-not-count-held-records",
        f"{_CLEANUP}a_cleanup_keeps_the_bytes_of_all_that_waits",
    ),
    Mutation(
        "422-letters-of-a-cleanup-name-nobody",
        f"{_CLEANUP}letters_name_the_operator_and_the_command",
    ),
    Mutation(
        "423-a-held-message-shows-no-deadline",
        "tests/simulation/test_decisions.py::test_a_held_message_is_a_dead_letter_after_its_deadline_and_not_before",
        also=("tests/unit/ops/test_dialogs.py::test_a_side_has_its_numbers_and_all_that_waits",),
    ),
    Mutation(
        "424-a-cleanup-does-not-ask",
        "tests/unit/ops/test_dialogs.py::test_a_command_says_what_is_missing[arguments0---yes]",
    ),
    Mutation(
        "435-the-peer-of-a-cleanup-is-never-told",
        "tests/simulation/test_ends.py::test_a_cleanup_tells_nobody_and_nothing_begins_the_dialog_again",
    ),
    Mutation(
        "436-an-error-lets-delayed-messages-go",
        f"{_MEMORY}an_error_drops_what_waits_for_its_destination_and_an_end_does_not",
    ),
    Mutation(
        "437-pauses-do-not-grow",
        "tests/unit/worker/test_destinations.py::test_pauses_are_those_of_service_broker",
    ),
    Mutation(
        "330-a-row-goes-before-it-is-acknowledged", f"{_RESEND}a_dialog_that_breaks_goes_on_with_what_was_not_accepted"
    ),
    Mutation("331-the-targets-mark-is-ignored", f"{_RESEND}a_message_whose_acknowledgement_is_lost_is_not_sent_again"),
    Mutation("332-a-fence-does-not-survive-its-process", f"{_RESEND}a_worker_that_dies_while_it_asks_goes_on_asking"),
    Mutation("333-a-fourth-generation-begins", f"{_RESEND}the_fourth_generation_does_not_begin"),
    Mutation("334-a-breach-is-sent-again", f"{_RESEND}a_breach_is_never_sent_again"),
    Mutation("335-silence-is-taken-for-an-answer", f"{_RESEND}a_target_that_never_answers_is_asked_for_ten_minutes"),
    Mutation(
        "336-what-is-left-to-the-sender-is-accepted",
        f"{_RESEND}above_a_limit_messages_are_sent_but_not_kept",
    ),
    Mutation("337-the-end-is-not-sent-again", f"{_RESEND}the_end_is_sent_again_too"),
    Mutation(
        "338-messages-follow-one-that-was-given-up-on",
        f"{_RESEND}messages_are_not_sent_again_if_the_target_gave_up_on_accepted_ones",
    ),
    Mutation("339-a-dialog-is-released-at-once", f"{_RESEND}delayed_messages_of_one_dialog_are_released_in_slices"),
    Mutation(
        "340-a-repetition-after-the-end-is-not-acknowledged",
        "tests/simulation/test_memory_of_dialogs.py::test_a_replay_after_the_end_has_no_effect",
    ),
    Mutation(
        "341-pending-is-not-handed-over",
        f"{_RESEND}on_error_sees_what_is_pending_and_may_send_it_again[True]",
        also=(f"{_RESEND}on_error_sees_what_is_pending_and_may_send_it_again[False]",),
    ),
    Mutation(
        "342-a-message-that-is-sent-again-gets-a-new-id",
        f"{_RESEND}a_dialog_that_breaks_goes_on_with_what_was_not_accepted",
    ),
    Mutation("343-a-missing-message-is-not-transmitted-again", f"{_RESEND}a_missing_message_is_transmitted_again"),
    Mutation(
        "344-a-fence-leaves-no-tombstone",
        f"{_RESEND}a_fence_that_comes_before_its_dialog_keeps_the_dialog_from_beginning",
    ),
    Mutation("345-a-limit-of-kept-bytes-is-ignored", f"{_RESEND}above_a_limit_messages_are_sent_but_not_kept"),
    Mutation(
        "346-an-error-after-the-end-is-told-to-nobody",
        "tests/unit/protocol/test_endpoint.py::test_an_error_that_meets_our_end_is_told_to_the_application",
    ),
    Mutation(
        "440-a-copy-of-a-notice-calls-on-skipped-again",
        "tests/simulation/test_skipped.py::test_a_copy_of_the_notice_changes_nothing",
    ),
    Mutation(
        "441-a-notice-is-settled-before-its-handler",
        "tests/slow_handlers/test_waiting.py::"
        "test_a_notice_of_a_skipped_message_is_kept_while_its_handler_runs_and_handled_by_the_next_worker",
    ),
    Mutation(
        "442-a-second-notice-makes-the-first-be-forgotten",
        f"{_AGAIN}[False]",
        also=(f"{_AGAIN}[True]",),
    ),
    Mutation(
        "443-a-client-always-speaks-as-the-initiator",
        "tests/unit/test_client.py::test_a_client_speaks_on_the_side_that_its_handle_names",
    ),
    Mutation(
        "444-an-early-command-decides-the-group",
        "tests/simulation/test_reader.py::"
        "test_a_command_for_a_dialog_that_was_never_accepted_is_refused_and_claims_nothing",
    ),
    Mutation(
        "445-a-view-takes-sent-for-acknowledged",
        "tests/simulation/test_reader.py::test_a_dialog_is_seen_only_after_its_command_is_carried_out",
    ),
    Mutation(
        "446-a-deleted-dialog-is-taken-for-a-new-one",
        "tests/simulation/test_reader.py::"
        "test_a_dialog_is_forgotten_when_its_rows_are_gone_or_it_cannot_begin_any_more",
    ),
    Mutation(
        "447-all-begins-are-under-way-at-once",
        "tests/unit/test_client.py::test_at_most_a_window_of_commands_is_under_way",
    ),
    Mutation(
        "448-begins-do-not-wait-for-the-first",
        "tests/unit/test_client.py::test_a_wrong_service_is_found_before_the_second_command",
    ),
    Mutation(
        "449-a-view-has-rows-that-are-not-committed",
        "tests/integration/kafka/test_readers.py::test_rows_of_an_open_or_aborted_transaction_are_not_in_a_view",
    ),
    Mutation(
        "400-offsets-of-a-feed-are-not-committed", f"{_KAFKA_FEEDS}each_record_begins_one_dialog_also_after_a_stop"
    ),
    Mutation("401-ids-of-dialogs-are-not-derived", f"{_FEEDS}a_record_that_is_read_again_begins_no_second_dialog"),
    Mutation(
        "402-bad-records-are-skipped",
        f"{_FEEDS}a_record_that_cannot_be_turned_into_a_message_is_a_letter_and_the_next_one_goes_on[raises]",
    ),
    Mutation(
        "403-copies-of-bad-records-are-commands",
        f"{_FEEDS}a_refused_record_whose_bytes_are_a_command_is_not_carried_out",
    ),
    Mutation("404-the-end-is-not-committed", f"{_KAFKA_FEEDS}a_feed_that_begins_at_the_end_misses_nothing_later"),
    Mutation("405-starts-without-its-topic", f"{_KAFKA_FEEDS}a_service_does_not_start_without_the_topic"),
    Mutation("406-feeds-of-the-namespace", f"{_FEEDS}a_topic_has_one_function_and_belongs_to_others"),
    Mutation(
        "350-the-kept-end-is-not-accepted",
        "tests/unit/protocol/test_endpoint.py::test_the_kept_end_of_the_peer_is_accepted_after_this_sides_end",
    ),
    Mutation(
        "354-the-next-dialog-of-a-pool-does-not-wait",
        f"{_POOLS}the_next_dialog_waits_while_the_target_has_not_handled_the_last_message",
    ),
    Mutation(
        "355-messages-after-the-end-of-a-stream",
        f"{_POOLS}a_message_for_a_key_whose_dialog_is_being_replaced_goes_on_another_dialog",
    ),
    Mutation("356-a-renewed-dialog-has-no-place", f"{_POOLS}a_dialog_that_breaks_is_replaced_in_its_place"),
    Mutation("357-held-back-dialogs-are-forgotten", f"{_POOLS}what_is_held_back_stays_so_after_a_crash"),
    Mutation(
        "353-a-command-of-another-lane",
        "tests/slow_handlers/test_waiting.py::test_a_command_that_comes_before_the_dialog_does_not_meet_its_handler",
    ),
    Mutation(
        "351-a-resend-leaves-the-failed-handler",
        f"{_RESEND}an_operator_sends_again_what_a_failed_handler_of_errors_leaves",
    ),
    Mutation(
        "352-a-resend-of-an-unbroken-dialog",
        f"{_RESEND}an_operator_sends_again_what_a_failed_handler_of_errors_leaves",
        also=(
            "tests/bad_input/test_commands.py::test_a_bad_command_has_its_outcome_and_harms_nobody[a resend of a dialog that is not broken]",
        ),
    ),
    Mutation(
        "360-kept-envelopes-of-an-ended-dialog-stay",
        f"{_LEAKS}nothing_is_left_of_a_dialog_and_no_copy_begins_it_again[fire-and-forget]",
    ),
    Mutation(
        "361-failed-handlers-of-an-ended-dialog-stay",
        f"{_LEAKS}nothing_is_left_of_a_dialog_and_no_copy_begins_it_again[failed-timer]",
    ),
    Mutation(
        "365-named-timers-outlive-their-side",
        f"{_NAMED}a_side_that_has_ended_and_waits_for_its_peer_fires_no_timer[end]",
    ),
    Mutation(
        "366-a-named-timer-set-anew-ends-with-its-handler",
        f"{_NAMED}a_timer_that_its_own_handler_sets_anew_is_kept[again]",
    ),
    Mutation("367-a-timer-fires-without-its-name", f"{_NAMED}each_timer_fires_once_at_its_time_with_its_name"),
    Mutation(
        "368-a-terminal-repeats-without-its-key",
        "tests/acceptance/test_dialogs.py::test_the_operators_dialogs",
    ),
    Mutation(
        "369-a-view-takes-accepted-for-handled",
        "tests/acceptance/test_chaos_speakers.py::test_three_speakers_have_one_order_and_no_view_is_ahead_of_the_truth",
    ),
    Mutation(
        "362-an-error-after-a-cleanup-is-not-answered",
        f"{_LAST_WORDS}an_error_after_a_cleanup_of_the_peer_is_answered[whole-caller-desk-off]",
    ),
    Mutation(
        "363-an-error-is-acknowledged-before-what-its-sender-keeps",
        f"{_LAST_WORDS}an_error_after_a_cleanup_leaves_its_sender_what_the_sender_keeps[whole]",
    ),
    Mutation(
        "364-a-side-that-is-over-tells-nobody-why",
        f"{_LAST_WORDS}a_side_whose_peer_could_not_be_told_of_a_break_is_told_later[whole]",
    ),
    Mutation(
        "379-an-error-takes-over-what-was-left-to-its-sender",
        "tests/unit/protocol/test_endpoint.py::test_an_error_of_a_peer_that_still_keeps_messages_is_not_acknowledged",
    ),
    Mutation(
        "380-a-delayed-end-is-no-last-word",
        f"{_LAST_WORDS}the_delayed_end_of_a_target_is_the_last_word_for_its_initiator[whole]",
    ),
    Mutation(
        "381-an-end-with-an-error-drops-answers",
        f"{_LAST_WORDS}an_error_that_waits_outlives_the_end_of_its_side[whole]",
    ),
    Mutation(
        "382-a-lost-end-is-told-to-nobody",
        f"{_LAST_WORDS}a_message_that_is_refused_with_the_end_of_a_target_behind_it_breaks_the_dialog_on_both_sides[whole]",
    ),
    Mutation(
        "384-an-end-that-the-close-drops-is-told-to-nobody", f"{_LAST_WORDS}a_break_after_a_delayed_end_is_told[whole]"
    ),
    Mutation(
        "385-an-end-dropped-with-a-refused-message-is-told-to-nobody",
        f"{_LAST_WORDS}a_broken_side_whose_delayed_end_is_dropped_with_a_refused_message_tells_its_peer[whole]",
    ),
    Mutation(
        "383-a-held-end-is-not-answered-after-a-cleanup",
        f"{_LAST_WORDS}a_side_that_has_ended_is_told_of_a_cleanup_although_its_end_came_early[whole]",
    ),
    Mutation(
        "370-the-target-caps-nothing",
        f"{_LIFETIMES}a_dialog_lives_no_longer_than_the_targets_contract_says[unlimited]",
    ),
    Mutation(
        "371-the-default-is-a-cap",
        f"{_LIFETIMES}a_target_that_sets_no_shorter_lifetime_takes_the_initiators[the target's contract sets none]",
    ),
    Mutation("372-the-cap-counts-from-the-restart", f"{_LIFETIMES}a_restart_does_not_move_the_end"),
    Mutation(
        "373-the-initiator-ignores-the-earlier-end",
        f"{_LIFETIMES}a_dialog_lives_no_longer_than_the_targets_contract_says[unlimited]",
    ),
    Mutation("374-the-earlier-end-is-not-written", f"{_LIFETIMES}an_initiator_keeps_the_end_that_its_target_told"),
    Mutation(
        "375-a-longer-lifetime-is-not-refused",
        f"{_LIFETIMES}a_longer_lifetime_than_that_of_the_contract_is_refused_at_once",
    ),
    Mutation(
        "376-a-request-asks-for-too-long",
        "tests/unit/test_local.py::test_a_request_lives_no_longer_than_its_contract_allows",
    ),
    Mutation(
        "377-an-end-is-put-off",
        "tests/unit/protocol/test_endpoint.py::test_the_end_of_a_lifetime_is_only_brought_forward",
    ),
    Mutation(
        "378-unlimited-dialogs-are-remembered-for-ever",
        "tests/simulation/test_unlimited_lifetimes.py::"
        "test_dialogs_of_an_unlimited_lifetime_stay_usable_for_a_year_and_leave_nothing[without crashes]",
    ),
    Mutation("465-apply-goes-on-on-an-unfit-cluster", f"{_DOCTOR}apply_goes_on_only_despite_all_findings"),
    Mutation(
        "466-apply-ignores-the-cluster",
        "tests/acceptance/test_doctor.py::test_apply_refuses_a_cluster_that_is_not_fit_and_changes_nothing",
    ),
    Mutation(
        "467-new-topics-keep-the-default-of-one-in-sync",
        f"{_DOCTOR}a_default_of_three_replicas_gives_new_topics_two_in_sync",
    ),
    Mutation(
        "468-a-lone-acknowledgement-is-sound", f"{_DOCTOR}each_check_finds_what_is_planted_for_it[min-insync-replicas]"
    ),
    Mutation(
        "469-internal-topics-are-judged-only-when-they-exist",
        f"{_DOCTOR}a_single_broker_with_the_defaults_of_kafka_is_not_fit",
    ),
    Mutation("470-a-copy-in-use-is-read", f"{_INSPECTION}a_copy_whose_worker_works_is_left_alone"),
    Mutation("471-a-scan-that-stops-is-complete", f"{_INSPECTION}a_broken_block_is_damage"),
    Mutation(
        "472-young-transactions-hang",
        f"{_DOCTOR}a_transaction_that_is_not_older_than_brokers_allow_is_no_finding",
    ),
    Mutation("473-a-broker-is-believed-without-tls", f"{_HANDSHAKE}with_tls_a_server_without_it_is_not_believed"),
    Mutation("474-a-silent-broker-is-waited-for", f"{_HANDSHAKE}nobody_waits_for_ever"),
    Mutation("485-a-missing-read-is-called-describe", f"{_ROLES}a_client_names_the_right_that_is_missing[0]"),
    Mutation("486-a-refused-command-names-no-right", f"{_ROLES}a_client_names_the_right_that_is_missing[1]"),
    Mutation("487-an-operator-may-not-record", f"{_ROLES}an_operator_needs_its_rights"),
    Mutation("488-apply-may-not-see-topics", f"{_ROLES}apply_needs_its_rights"),
    Mutation("489-spark-may-not-read-letters", "tests/spark/test_least_rights.py::test_spark_needs_its_rights"),
    Mutation("492-a-viewer-acts", f"{_WEB}test_guard.py::test_a_viewer_changes_nothing_whatever_the_page_does[POST]"),
    Mutation("493-a-form-without-its-token", f"{_WEB}test_application.py::test_no_page_that_changes_something_is_open"),
    Mutation(
        "494-a-form-of-another-site", f"{_WEB}test_guard.py::test_a_form_of_another_site_does_not_pass[headers2-False]"
    ),
    Mutation(
        "495-a-wrong-password-counts-when-it-is-checked",
        f"{_WEB}test_users.py::test_many_passwords_at_the_same_moment_are_no_way_around_a_pause",
    ),
    Mutation(
        "496-a-viewer-searches-bodies", "tests/hostile/test_pages.py::test_no_page_tells_a_viewer_what_a_body_says"
    ),
    Mutation(
        "497-a-session-lasts",
        f"{_WEB}test_users.py::test_a_session_ends_when_nobody_uses_it_and_after_its_longest_time",
    ),
    Mutation(
        "498-a-new-password-leaves-the-sessions",
        f"{_WEB}test_users.py::test_a_new_password_ends_the_sessions_of_the_old_one",
    ),
    Mutation(
        "499-an-idle-connection-stays",
        f"{_WEB}test_connection.py::test_a_connection_without_a_whole_request_is_closed[]",
    ),
    Mutation("475-held-messages-are-not-counted", f"{_METRICS}a_held_message_its_wait_and_its_letter_are_told"),
    Mutation("476-a-queue-that-is-off-is-no-metric", f"{_METRICS}a_queue_that_is_off_is_one_for_each_partition"),
    Mutation("477-the-lag-is-what-is-committed", f"{_METRICS}the_lag_is_what_is_not_read"),
    Mutation("478-a-long-count-is-repeated-at-once", f"{_METRICS}a_count_of_many_parks_is_not_repeated_at_once"),
    Mutation(
        "479-a-commit-in-doubt-is-not-counted",
        f"{_METRICS}commits_that_fail_are_counted_by_what_became_of_them[aborted]",
    ),
    Mutation(
        "480-without-the-extra-the-page-fails",
        "tests/unit/ops/test_metrics.py::test_without_prometheus_client_the_error_names_the_extra",
    ),
    Mutation(
        "481-a-partition-set-aside-is-forgotten",
        "tests/simulation/test_refused_records.py::"
        "test_a_record_that_its_own_topic_does_not_take_sets_its_partition_aside[state]",
    ),
    Mutation(
        "482-a-duration-is-counted-where-it-does-not-belong",
        "tests/unit/worker/test_durations.py::test_a_bound_belongs_to_the_interval_below_it[3]",
    ),
    Mutation(
        "490-a-side-is-summed-again",
        "tests/unit/ops/test_read_model.py::test_the_sums_are_those_of_the_open_sides_whatever_happened_before",
    ),
    Mutation(
        "491-a-page-waits-for-the-receipt-of-its-head",
        f"{_WEB}test_server.py::test_what_is_written_to_a_connection_leaves_at_once",
    ),
    Mutation(
        "520-a-partition-without-an-owner-is-set-aside-too",
        f"{_WHY}a_partition_that_is_set_aside_and_an_open_transaction_are_causes",
    ),
    Mutation(
        "521-an-open-transaction-has-no-cause",
        f"{_WHY}a_partition_that_is_set_aside_and_an_open_transaction_are_causes",
    ),
    Mutation(
        "522-a-dialog-of-a-pool-waits-for-the-one-behind-it",
        f"{_WHY}a_dialog_of_a_pool_waits_for_the_one_before_it",
    ),
    Mutation("523-a-secret-of-the-command-line-is-printed", f"{_WHY}a_printed_command_has_the_options_but_no_secret"),
    Mutation(
        "540-a-run-that-was-taken-over-goes-on",
        "tests/acceptance/test_redrive.py::test_of_two_runs_of_one_plan_only_one_gives_letters_back",
    ),
    Mutation(
        "541-a-lost-run-is-believed",
        f"{_REDRIVES}the_last_run_owns_the_redrive_and_what_a_lost_run_writes_later_is_left_out",
    ),
    Mutation(
        "542-a-regression-is-not-seen",
        "tests/unit/ops/test_notes.py::test_a_group_regresses_when_a_message_fails_after_it_was_mended[known2-regressed]",
    ),
    Mutation(
        "543-a-plan-is-mixed-with-an-earlier-one",
        f"{_REDRIVES}a_plan_that_is_written_again_is_never_mixed_with_the_first_one",
    ),
    Mutation("530-decisions-through-commands", f"{_DECIDING}a_client_turns_no_queue_off"),
    Mutation("531-commands-through-decisions", f"{_DECIDING}an_operator_speaks_for_no_client"),
    Mutation(
        "532-the-position-of-decisions-is-not-kept", f"{_DECIDING}a_decision_is_carried_out_once_though_workers_die"
    ),
    Mutation("533-decisions-wait-for-commands", f"{_DECIDING}a_decision_does_not_wait_for_a_flood_of_commands"),
    Mutation(
        "534-a-misrouted-decision-is-carried-out",
        f"{_DECIDING}a_decision_in_a_wrong_partition_is_refused_and_not_forwarded",
    ),
    Mutation(
        "535-a-broker-makes-the-topic",
        "tests/integration/kafka/test_decisions_topic.py::test_a_namespace_of_an_older_release_needs_apply_once",
    ),
    Mutation(
        "500-a-handler-begins-a-trace-of-its-own",
        "tests/simulation/test_traces.py::test_a_dialog_and_the_dialogs_it_begins_are_one_trace",
    ),
    Mutation(
        "501-what-a-handler-sends-has-no-trace",
        "tests/simulation/test_traces.py::test_a_dialog_and_the_dialogs_it_begins_are_one_trace",
    ),
    Mutation(
        "502-any-traceparent-is-believed",
        "tests/unit/test_tracing.py::test_a_malformed_or_huge_parent_is_none[parent12]",
    ),
    Mutation(
        "503-an-edited-message-loses-its-trace",
        "tests/simulation/test_traces.py::test_an_edited_message_keeps_its_trace",
    ),
    Mutation(
        "504-a-delayed-envelope-loses-its-trace",
        "tests/simulation/test_traces.py::test_an_envelope_that_waits_for_its_destination_keeps_its_trace",
    ),
    Mutation(
        "505-the-trace-of-a-timer-stays",
        "tests/simulation/test_traces.py::test_the_trace_of_a_timer_goes_with_its_dialog",
    ),
    Mutation(
        "506-a-failed-span-fails-the-handler",
        "tests/simulation/test_traces.py::test_a_span_processor_that_fails_fails_no_handler",
    ),
    Mutation(
        "507-a-line-of-a-handler-has-only-its-conversation",
        "tests/unit/test_logs.py::test_a_handler_and_the_worker_write_the_fields_of_the_dialog_and_no_body",
    ),
    Mutation(
        "508-the-fields-of-another-dialog",
        "tests/unit/test_logs.py::test_lines_for_programs_are_objects_with_what_the_record_was_given",
    ),
    Mutation(
        "509-the-format-of-log-lines-is-not-read",
        "tests/acceptance/test_run.py::test_a_setting_makes_every_log_line_an_object",
    ),
    Mutation(
        "510-a-timer-outlives-its-side",
        "tests/unit/ops/test_timers.py::test_a_timer_comes_with_its_side_and_goes_with_it",
    ),
    Mutation(
        "511-no-timer-is-overdue", "tests/unit/ops/test_timers.py::test_a_timer_comes_with_its_side_and_goes_with_it"
    ),
    Mutation(
        "512-a-missing-field-fits",
        "tests/unit/ops/test_json_shapes.py::test_a_fault_is_named_with_its_field[body2-lines is missing]",
    ),
    Mutation(
        "513-a-body-without-a-schema-is-bytes",
        "tests/unit/ops/test_json_shapes.py::test_a_service_of_the_catalog_checks_bodies",
    ),
    Mutation(
        "386-the-brake-stops-what-an-operator-gave-back",
        "tests/simulation/test_brake.py::test_a_message_that_an_operator_gives_back_is_tried_at_once_and_turns_the_brake_off",
    ),
    Mutation(
        "387-a-braked-failure-is-not-told-to-the-operator",
        "tests/simulation/test_brake.py::test_a_message_that_an_operator_gives_back_is_tried_at_once_and_turns_the_brake_off",
    ),
    Mutation(
        "388-a-carrier-does-not-fence-the-one-before-it",
        "tests/integration/kafka/test_forwarder.py::test_a_carrier_whose_partition_has_another_one_appends_nothing",
    ),
    Mutation(
        "389-a-forwarder-begins-before-its-position",
        "tests/integration/kafka/test_forwarder.py::test_forwarders_that_end_and_begin_again_repeat_nothing",
    ),
    Mutation(
        "390-a-route-is-not-looked-at",
        "tests/unit/worker/test_destinations.py::test_envelopes_for_another_cluster_go_into_its_transmission_topic",
    ),
    Mutation(
        "391-the-wait-does-not-grow",
        "tests/simulation/test_two_clusters.py::test_the_waits_are_those_of_service_broker_and_begin_anew_with_the_first_success",
    ),
    Mutation(
        "392-an-acknowledgement-does-not-begin-anew",
        "tests/simulation/test_two_clusters.py::test_an_acknowledgement_of_a_part_begins_anew",
    ),
    Mutation(
        "393-a-target-keeps-nothing-for-another-cluster",
        "tests/simulation/test_two_clusters.py::test_what_the_target_sends_is_transmitted_again",
    ),
    Mutation(
        "394-an-error-is-not-kept-for-another-cluster",
        "tests/simulation/test_two_clusters.py::test_a_lost_error_of_the_application_is_transmitted_again",
    ),
    Mutation(
        "395-a-closed-side-answers-another-cluster-once",
        "tests/simulation/test_two_clusters.py::test_a_closed_side_answers_each_late_message_of_another_cluster",
    ),
    Mutation(
        "396-a-gap-breaks-a-dialog-between-clusters",
        "tests/simulation/test_two_clusters.py::test_a_gap_breaks_no_dialog_between_clusters",
    ),
    Mutation(
        "397-an-old-question-is-answered",
        "tests/unit/protocol/test_endpoint.py::test_a_question_that_is_older_than_an_acknowledgement_is_not_answered",
    ),
    Mutation(
        "536-the-routes-of-the-first-connection",
        "tests/simulation/test_two_clusters.py::test_a_worker_that_has_joined_again_knows_which_services_are_on_another_cluster",
    ),
    Mutation(
        "398-a-wrong-checksum-is-accepted",
        "tests/simulation/test_damaged_records.py::test_each_byte_wrong_is_discarded_on_an_open_dialog[there]",
    ),
    Mutation(
        "399-a-record-from-afar-needs-no-checksum",
        "tests/simulation/test_damaged_records.py::test_a_record_from_another_cluster_without_its_checksum_is_discarded[another header]",
    ),
    Mutation(
        "400-what-is-not-sealed-is-accepted",
        "tests/simulation/test_sealed_records.py::test_a_forgery_begins_no_dialog[unsealed]",
    ),
    Mutation(
        "401-a-nonce-is-used-twice",
        "tests/unit/test_sealing.py::test_each_seal_has_a_nonce_of_its_own",
    ),
    Mutation(
        "402-both-directions-have-one-key",
        "tests/unit/test_sealing.py::test_a_key_of_the_cipher_belongs_to_one_dialog_and_one_direction",
    ),
    Mutation(
        "403-the-key-of-the-record-is-not-sealed",
        "tests/unit/test_sealing.py::test_so_is_the_key_of_the_record",
    ),
    Mutation(
        "404-a-refused-record-is-kept-sealed",
        "tests/simulation/test_sealed_records.py::test_what_a_refusing_topic_gives_back_is_kept_plain_and_sealed_anew",
    ),
    Mutation(
        "517-the-reason-of-a-stop-is-lost",
        "tests/acceptance/test_redrive.py::test_a_redrive_is_stopped_from_elsewhere_and_goes_on",
    ),
    Mutation(
        "518-a-message-type-decides",
        "tests/unit/ops/test_journal.py::test_who_is_a_person_or_the_policy_or_the_worker_and_never_a_type[fields0-policy-partition 1, Look]",
    ),
    Mutation(
        "519-an-edited-body-is-not-checked-before",
        "tests/acceptance/test_dead_letters.py::test_what_an_operator_may_get_wrong",
    ),
    Mutation(
        "547-a-row-goes-with-the-first-fragments",
        f"{_FRAGMENTS}a_dialog_that_breaks_in_the_middle_of_a_message_gives_it_back_whole",
    ),
    Mutation("548-what-is-held-is-sent-again", f"{_FRAGMENTS}only_a_lost_fragment_is_sent_again"),
    Mutation(
        "549-fragments-stay-after-their-message", f"{_FRAGMENTS}a_long_message_comes_whole_between_short_ones[False]"
    ),
    Mutation("550-any-fragment-may-follow", f"{_FRAGMENTS}what_is_not_the_next_fragment_breaks_the_dialog[wrong1]"),
    Mutation(
        "551-the-letter-has-only-the-last-fragment",
        f"{_FRAGMENTS}the_dead_letter_of_a_long_message_is_whole[Then.SKIP]",
    ),
    Mutation(
        "552-a-message-in-part-counts-as-accepted",
        f"{_NUMBERS}fragments_that_are_given_back_are_not_accepted",
    ),
    Mutation(
        "553-a-message-has-no-largest-size", f"{_FRAGMENTS}what_is_not_the_next_fragment_breaks_the_dialog[wrong5]"
    ),
    Mutation(
        "554-fragments-have-no-limit", f"{_FRAGMENTS}too_many_bytes_of_fragments_break_the_dialog_of_the_next_message"
    ),
    Mutation(
        "555-fragments-without-a-keeper-are-dropped",
        f"{_FRAGMENTS}fragments_of_a_sender_that_keeps_nothing_become_dead_letters_one_by_one",
    ),
    Mutation(
        "556-fragments-are-forgotten-by-a-restart",
        f"{_FRAGMENTS}a_long_message_survives_the_death_of_its_owner_in_the_middle",
    ),
    Mutation(
        "514-a-missing-forwarder-is-no-reason",
        "tests/unit/ops/test_transmission.py::test_the_reasons_of_a_peer_on_another_cluster",
    ),
    Mutation(
        "515-a-lifetime-is-the-next-try",
        "tests/unit/ops/test_transmission.py::test_on_one_cluster_nothing_is_tried_again_and_no_other_deadline_looks_like_it",
    ),
    Mutation(
        "516-idle-connections-are-kept",
        "tests/integration/kafka/test_forwarder_tells.py::test_idle_connections_are_closed_and_a_forwarder_goes_on",
    ),
    Mutation(
        "524-an-outage-is-told-again-and-again",
        "tests/integration/kafka/test_forwarder_tells.py::test_a_forwarder_tells_that_the_other_cluster_is_away_and_back",
    ),
    Mutation(
        "525-a-cluster-that-is-away-is-no-cause",
        "tests/unit/ops/test_why.py::test_a_way_to_another_cluster_without_a_forwarder_is_a_cause",
    ),
    Mutation(
        "544-an-envelope-that-crossed-twice-is-no-mismatch",
        "tests/acceptance/test_demo.py::test_check_finds_what_has_not_crossed_once[8]",
    ),
    Mutation(
        "526-every-peer-is-accepted",
        "tests/simulation/test_accepts_from.py::test_only_the_named_services_may_begin_dialogs",
    ),
    Mutation(
        "527-a-route-is-known-for-ever",
        "tests/unit/worker/test_destinations.py::test_the_way_to_another_cluster_follows_the_catalog_and_one_of_this_cluster_stays",
    ),
    Mutation(
        "528-a-dialog-keeps-its-old-way",
        "tests/integration/kafka/test_forwarder.py::test_dialogs_go_on_when_a_route_changes_while_their_worker_runs",
    ),
    Mutation(
        "529-a-forwarder-needs-no-right-to-its-position",
        "tests/rights/test_forwarder_rights.py::test_the_printed_rights_of_a_forwarder_are_enough_and_each_is_needed",
    ),
    Mutation(
        "557-a-restored-side-transmits-again-at-once",
        "tests/unit/protocol/test_endpoint.py::test_a_restored_side_does_not_transmit_again_before_its_time[0-14]",
    ),
    Mutation(
        "558-a-restored-side-forgets-its-time",
        "tests/unit/protocol/test_endpoint.py::test_a_restored_side_does_not_transmit_again_before_its_time[30000000-30]",
    ),
    Mutation(
        "564-everything-is-transmitted-again-and-again",
        "tests/simulation/test_two_clusters.py::test_the_waits_are_those_of_service_broker_and_begin_anew_with_the_first_success",
    ),
    Mutation(
        "565-an-acknowledged-probe-is-followed-by-a-probe",
        "tests/unit/protocol/test_retransmission.py::test_after_an_acknowledgement_everything_is_transmitted_again",
    ),
    Mutation(
        "566-a-restored-side-transmits-everything-again",
        "tests/unit/protocol/test_retransmission.py::test_a_restored_side_begins_with_a_probe",
    ),
    Mutation(
        "560-a-command-in-pieces-takes-effect-again",
        "tests/simulation/test_pieces.py::test_what_comes_again_has_no_effect",
    ),
    Mutation(
        "561-a-command-is-carried-out-before-its-last-piece",
        "tests/simulation/test_pieces.py::test_a_large_block_takes_effect_with_its_last_piece",
    ),
    Mutation(
        "562-pieces-are-forgotten-by-a-restart",
        "tests/simulation/test_pieces.py::test_workers_that_die_among_the_pieces_lose_none",
    ),
    Mutation(
        "563-pieces-stay-for-ever",
        "tests/simulation/test_pieces.py::test_a_client_that_dies_among_the_pieces_leaves_nothing",
    ),
    Mutation(
        "581-a-fragment-beyond-the-budget-counts-as-not-kept",
        "tests/simulation/test_fragments.py::test_many_lost_fragments_that_are_asked_for_in_one_step_break_no_dialog",
    ),
    Mutation(
        "582-what-was-answered-is-forgotten-before-the-commit",
        "tests/simulation/test_answers.py::test_an_answer_whose_step_is_rolled_back_ends_its_dialog_all_the_same",
    ),
    Mutation(
        "583-an-answer-waits-for-the-commit",
        "tests/simulation/test_answers.py::test_an_answer_without_a_handler_is_told_before_the_commit_and_another_one_after_it[False]",
    ),
    Mutation(
        "584-receipts-wait-longer-than-the-setting",
        "tests/simulation/test_receipts.py::test_an_end_waits_no_longer_than_the_setting",
    ),
    Mutation(
        "585-the-end-of-a-paused-queue-is-not-asked-for",
        "tests/integration/kafka/test_connection.py::test_the_end_of_a_paused_queue_is_known_although_nothing_is_fetched",
    ),
    Mutation(
        "580-a-changed-source-runs-as-it-was-compiled",
        "tests/architecture/test_compiled.py::test_the_digest_is_of_names_and_bytes",
    ),
    Mutation(
        "559-a-new-route-is-not-looked-up",
        "tests/simulation/test_two_clusters.py::test_the_first_dialog_over_a_new_route_is_transmitted_again",
    ),
    Mutation(
        "567-a-step-transmits-all-fragments",
        "tests/simulation/test_fragments.py::test_other_dialogs_go_on_between_the_fragments_that_one_step_transmits[False]",
    ),
    Mutation(
        "568-fragments-are-routed-without-end",
        "tests/simulation/test_fragments.py::test_a_step_takes_only_so_many_bytes_of_fragments",
    ),
    Mutation(
        "569-what-is-refused-goes-behind-its-successors",
        "tests/simulation/test_fragments.py::test_fragments_keep_their_order_when_the_queue_refuses_the_first_of_them",
    ),
    Mutation(
        "570-a-flowing-dialog-takes-no-commands",
        "tests/simulation/test_pieces.py::test_a_client_may_send_while_fragments_wait_for_the_next_step",
    ),
    Mutation(
        "571-delayed-fragments-are-released-at-once",
        "tests/simulation/test_fragments.py::test_each_step_transmits_a_few_fragments",
    ),
    Mutation(
        "572-pieces-are-deleted-with-their-command",
        "tests/simulation/test_pieces.py::test_a_large_message_is_transmitted_from_the_pieces_of_its_command",
    ),
    Mutation(
        "573-pieces-in-use-are-forgotten-in-time",
        "tests/simulation/test_pieces.py::test_pieces_stay_as_long_as_a_message_needs_them",
    ),
    Mutation(
        "574-a-restart-forgets-what-refers-to-pieces",
        "tests/simulation/test_pieces.py::test_owners_that_die_between_the_fragments_lose_none",
    ),
    Mutation(
        "575-a-row-stands-for-what-was-transmitted",
        "tests/simulation/test_pieces.py::test_a_large_message_is_transmitted_from_the_pieces_of_its_command",
    ),
    Mutation(
        "576-pieces-of-a-dialog-that-is-over-stay",
        "tests/simulation/test_pieces.py::test_a_message_that_is_never_transmitted_comes_back_whole",
    ),
    Mutation(
        "577-only-the-first-fragment-comes-back",
        "tests/simulation/test_pieces.py::test_a_message_that_is_never_transmitted_comes_back_whole",
    ),
    Mutation(
        "578-the-content-of-pieces-is-not-compared",
        "tests/simulation/test_pieces.py::test_a_command_that_differs_in_one_byte_in_the_middle_is_another_one[False]",
    ),
    Mutation(
        "579-large-messages-of-clients-are-cut-at-once",
        "tests/simulation/test_pieces.py::test_a_large_message_is_transmitted_from_the_pieces_of_its_command",
    ),
    Mutation(
        "599-the-letter-of-a-command-in-pieces-has-only-the-last-one",
        "tests/simulation/test_pieces.py::test_a_command_that_is_refused_as_a_whole_keeps_all_its_bytes",
    ),
    Mutation(
        "600-a-whole-command-is-joined-beside-its-bodies",
        "tests/simulation/test_pieces.py::test_a_whole_command_is_not_joined_beside_its_bodies",
    ),
    Mutation("601-a-long-queue-takes-the-whole-slice", f"{_TURNS}a_long_queue_gets_its_share_while_others_wait"),
    Mutation(
        "602-what-is-due-waits-behind-what-goes-on",
        f"{_TURNS}a_dialog_that_has_become_due_does_not_wait_behind_all_that_go_on",
    ),
    Mutation("603-a-row-read-ahead-stays", f"{_TURNS}a_row_is_read_ahead_once"),
    Mutation(
        "604-rows-are-read-ahead-of-their-change", f"{_TURNS}rows_that_the_next_transaction_changes_are_not_read_ahead"
    ),
    Mutation("605-a-failed-head-has-a-whole-share", f"{_TURNS}a_head_that_has_failed_takes_one_record_of_the_slice"),
    Mutation(
        "606-a-slow-dialog-has-a-whole-share", f"{_TURNS}a_dialog_with_a_slow_handler_takes_one_record_of_a_later_slice"
    ),
    Mutation(
        "607-a-body-in-pieces-counts-for-nothing",
        "tests/simulation/test_pieces.py::test_a_body_in_pieces_counts_among_the_bytes_that_wait_for_its_destination",
    ),
    Mutation(
        "608-what-is-accepted-behind-a-gap-answers-a-fence",
        "tests/unit/protocol/test_endpoint.py::test_what_is_accepted_behind_a_gap_does_not_acknowledge_what_is_left_to_the_peer",
    ),
    Mutation(
        "609-what-is-accepted-behind-a-gap-is-acknowledged",
        "tests/unit/protocol/test_endpoint.py::test_what_is_left_to_the_peer_stays_with_it_when_it_comes_again",
    ),
    Mutation(
        "610-a-tombstone-acknowledges-what-is-behind-a-gap",
        f"{_RESEND}what_is_not_kept_does_not_acknowledge_what_is_kept[1-automatic]",
    ),
    Mutation(
        "611-an-error-says-nothing-of-what-is-kept",
        f"{_RESEND}an_error_behind_what_is_not_kept_does_not_acknowledge_what_is_kept",
    ),
    Mutation(
        "612-a-late-error-takes-over-what-is-left-to-its-sender",
        f"{_RESEND}a_closed_side_leaves_an_error_to_a_sender_that_still_keeps_messages",
    ),
    Mutation(
        "613-a-new-dialog-without-what-was-not-kept",
        f"{_RESEND}there_is_no_new_dialog_without_the_messages_that_were_not_kept",
    ),
    Mutation(
        "614-what-is-transmitted-again-is-not-kept",
        f"{_RESEND}what_is_transmitted_again_is_kept_although_the_dialog_has_stopped_keeping",
    ),
    Mutation(
        "615-an-error-after-the-end-takes-over-everything",
        f"{_RESEND}an_error_that_comes_after_the_end_of_this_side_takes_over_nothing",
    ),
    Mutation(
        "616-what-breaks-a-dialog-is-kept-by-both",
        "tests/simulation/test_bounds.py::test_a_dialog_holds_only_so_many_bytes_behind_a_gap[False-True]",
    ),
    Mutation(
        "617-a-queue-that-refuses-is-tried-at-once",
        "tests/integration/kafka/test_forwarder.py::test_a_queue_that_refuses_records_holds_up_no_other_queue[everything]",
    ),
    Mutation(
        "630-a-rebuilt-cluster-refuses-as-the-old-one",
        "tests/integration/kafka/test_forwarder_tells.py::test_a_cluster_that_is_rebuilt_empty_gets_what_the_transmission_topic_has",
    ),
    Mutation(
        "618-a-refused-batch-is-taken-for-a-record",
        "tests/unit/kafka/test_refusing_queues.py::test_a_record_that_is_too_large_is_found_one_by_one",
    ),
    Mutation(
        "619-a-limit-is-looked-at-in-the-middle-of-a-message",
        f"{_FRAGMENTS}a_message_is_kept_whole_or_not_at_all[False-550-100000]",
    ),
    Mutation(
        "620-a-limit-counts-before-what-is-delayed-is-transmitted",
        f"{_FRAGMENTS}a_message_is_kept_whole_or_not_at_all[False-200-400]",
    ),
    Mutation(
        "621-what-is-released-looks-at-no-limit",
        "tests/simulation/test_pieces.py::test_a_large_message_is_kept_whole_or_not_at_all[500]",
    ),
    Mutation(
        "622-what-is-kept-and-refused-counts-twice",
        f"{_FRAGMENTS}what_a_queue_refuses_and_the_sender_keeps_is_transmitted_as_kept[300-not_kept1]",
    ),
    Mutation(
        "623-what-is-kept-and-refused-is-not-marked",
        f"{_FRAGMENTS}what_a_queue_refuses_and_the_sender_keeps_is_transmitted_as_kept[150-not_kept0]",
    ),
    Mutation(
        "625-what-is-kept-and-refused-is-never-transmitted-again",
        "tests/simulation/test_two_clusters.py::test_what_the_transmission_topic_refused_and_the_way_lost_is_transmitted_again",
    ),
    Mutation(
        "626-a-load-begins-a-wait-anew",
        f"{_RESEND}a_missing_message_is_asked_for_although_the_endpoint_leaves_memory[3000-False]",
    ),
    Mutation(
        "627-the-end-of-a-wait-is-not-in-the-row",
        f"{_RESEND}a_missing_message_is_asked_for_although_the_endpoint_leaves_memory[3000-True]",
    ),
    Mutation(
        "628-a-wait-of-before-a-restart-has-passed",
        f"{_RESEND}a_missing_message_is_asked_for_although_the_endpoint_leaves_memory[3000-True]",
    ),
    Mutation(
        "629-a-missing-message-is-due-at-each-load",
        f"{_RESEND}a_missing_message_is_asked_for_although_the_endpoint_leaves_memory[3000-False]",
    ),
    Mutation("624-messages-come-back-all-at-once", f"{_FRAGMENTS}large_messages_come_back_one_after_the_other"),
    Mutation(
        "631-the-next-part-begins-where-the-first-did",
        f"{_RETURNS}what_another_cluster_did_not_accept_comes_back_in_parts[False]",
    ),
    Mutation(
        "632-what-is-delayed-stays-after-the-last-part",
        f"{_LAST_WORDS}an_error_behind_messages_that_come_back_leaves_after_them[parts]",
    ),
    Mutation(
        "633-what-comes-back-is-transmitted-as-well",
        f"{_LAST_WORDS}an_error_behind_messages_that_come_back_leaves_after_them[parts]",
    ),
    Mutation("634-a-restart-forgets-what-comes-back", f"{_RETURNS}what_a_queue_did_not_take_comes_back_in_parts[True]"),
    Mutation(
        "635-only-the-first-part-is-counted",
        f"{_RETURNS}what_another_cluster_did_not_accept_comes_back_in_parts[False]",
    ),
    Mutation(
        "636-a-part-ends-in-the-middle-of-a-message",
        f"{_RETURNS}a_step_whose_time_ends_in_the_middle_of_a_message_takes_the_whole_message",
    ),
    Mutation("637-a-part-has-no-end", f"{_RETURNS}what_another_cluster_did_not_accept_comes_back_in_parts[False]"),
    Mutation(
        "639-repeated-deadlines-pile-up",
        "tests/unit/worker/test_deadlines.py::test_a_deadline_that_is_added_again_and_again_is_kept_a_few_times[7]",
    ),
    Mutation(
        "640-what-comes-back-is-forgotten-with-its-tombstone",
        f"{_RETURNS}what_comes_back_is_not_forgotten_with_its_dialog",
    ),
    Mutation(
        "641-what-comes-back-in-front-is-done",
        f"{_RETURNS}what_is_refused_in_the_step_that_ends_its_dialog_comes_back[12000]",
    ),
    Mutation("642-owners-draw-the-same-numbers", f"{_RETURNS}no_two_letters_have_the_same_source[3]"),
    Mutation("638-what-comes-back-is-refused-as-well", f"{_RETURNS}what_comes_back_is_not_refused_as_well"),
    Mutation(
        "586-a-redrive-goes-through-the-brake",
        "tests/simulation/test_brake.py::test_of_many_that_an_operator_gives_back_at_once_the_brake_lets_one_through",
    ),
    Mutation(
        "587-a-run-keeps-its-calls",
        "tests/unit/worker/test_reference_cycles.py::test_no_cycle_is_left_for_each_message[def]",
        also=("tests/unit/worker/test_reference_cycles.py::test_no_cycle_is_left_for_each_message[async]",),
    ),
    Mutation(
        "588-an-abandoned-run-keeps-its-calls",
        "tests/unit/worker/test_reference_cycles.py::test_a_run_whose_handler_ran_too_long_lets_go_of_its_calls",
    ),
    Mutation(
        "589-a-repeated-commit-begins-another-step",
        "tests/unit/worker/test_working_ahead.py::test_a_commit_that_is_repeated_has_nothing_of_the_next_step",
    ),
    Mutation(
        "590-a-step-that-is-begun-is-finished-work",
        "tests/unit/worker/test_working_ahead.py::test_a_step_that_is_begun_and_not_committed_is_unfinished_work",
    ),
    Mutation(
        "643-receipts-wait-while-records-are-suspect",
        "tests/simulation/test_receipts.py::test_no_receipt_waits_while_the_records_before_a_crash_are_suspect",
    ),
    Mutation(
        "591-suspects-are-worked-on-ahead",
        "tests/unit/worker/test_working_ahead.py::test_under_suspicion_nothing_is_worked_on_ahead",
    ),
    Mutation(
        "592-a-worker-that-stops-works-ahead",
        "tests/unit/worker/test_working_ahead.py::test_a_worker_that_stops_begins_nothing_ahead",
    ),
    Mutation(
        "593-a-few-records-are-worked-on-ahead",
        "tests/unit/worker/test_working_ahead.py::test_a_few_records_are_not_worked_on_ahead",
    ),
    Mutation(
        "594-large-transactions-are-worked-on-beside",
        "tests/unit/worker/test_working_ahead.py::test_nothing_begins_ahead_of_a_transaction_with_many_bytes",
    ),
    Mutation(
        "595-damage-that-is-found-ahead-is-not-reported",
        "tests/unit/worker/test_working_ahead.py::test_damaged_rows_are_reported_after_the_commit[find-1]",
        also=("tests/unit/worker/test_working_ahead.py::test_damaged_rows_are_reported_after_the_commit[find-2]",),
    ),
    Mutation(
        "596-what-is-read-ahead-counts-as-handled",
        "tests/unit/worker/test_working_ahead.py::test_what_is_read_for_the_next_step_is_not_handled_yet",
    ),
    Mutation(
        "597-delayed-envelopes-are-worked-on-ahead",
        "tests/unit/worker/test_working_ahead.py::test_nothing_begins_ahead_while_envelopes_are_delayed",
    ),
    Mutation(
        "598-damage-that-falls-due-ahead-ends-the-commit",
        "tests/unit/worker/test_working_ahead.py::test_damaged_rows_are_reported_after_the_commit[wake-1]",
    ),
    Mutation(
        "644-a-trace-that-waits-is-lost",
        "tests/unit/test_tracing.py::test_a_row_has_the_context_of_its_record_or_nothing",
    ),
    Mutation(
        "645-a-checksum-of-an-earlier-release-is-wrong",
        "tests/unit/protocol/test_integrity.py::test_a_record_with_the_right_one_is_whole_and_one_without_has_none[headers1]",
    ),
    Mutation(
        "646-unreadable-headers-set-a-record-aside",
        "tests/bad_input/test_wire.py::test_headers_that_no_receiver_reads_change_nothing[a name that is not UTF-8]",
    ),
    Mutation(
        "647-a-row-in-front-of-rocksdb-is-not-read",
        "tests/unit/stores/test_rocksdb.py::test_what_was_applied_last_is_read_at_once_wherever_it_is_kept",
    ),
    Mutation(
        "648-a-scan-misses-rows-in-front-of-rocksdb",
        "tests/unit/stores/test_rocksdb.py::test_what_was_applied_last_is_read_at_once_wherever_it_is_kept",
    ),
    Mutation(
        "649-many-partitions-keep-megabytes-each",
        "tests/unit/stores/test_rocksdb.py::test_many_partitions_share_what_is_kept_in_front_of_rocksdb[16-1]",
    ),
    Mutation(
        "650-a-closed-copy-lacks-its-last-rows",
        "tests/unit/stores/test_rocksdb.py::test_a_closed_copy_has_given_all_rows_on",
    ),
    Mutation(
        "651-a-float-may-be-infinite",
        "tests/unit/test_plain_models.py::test_numbers_that_json_does_not_have_are_refused",
    ),
    Mutation(
        "652-a-constraint-is-not-checked",
        "tests/unit/test_plain_models.py::test_each_rule_of_a_class_is_checked[Positive-values]",
    ),
    Mutation(
        "653-a-class-with-a-configuration-is-plain",
        "tests/unit/test_plain_models.py::test_each_rule_of_a_class_is_checked[Short-values]",
    ),
    Mutation(
        "655-a-field-with-an-alias-is-plain",
        "tests/unit/test_plain_models.py::test_each_rule_of_a_class_is_checked[Renamed-values]",
    ),
    Mutation(
        "656-a-finished-item-stays-in-its-lane",
        "tests/unit/worker/test_lanes.py::test_the_bytes_of_a_finished_item_leave_memory_at_once",
    ),
    Mutation(
        "657-a-long-lane-loses-its-place",
        "tests/unit/worker/test_lanes.py::test_a_lane_is_a_queue",
    ),
    Mutation(
        "658-a-new-read-model-is-locked",
        "tests/unit/ops/test_read_model.py::test_a_new_file_waits_while_another_process_has_it_locked",
    ),
    Mutation(
        "659-two-ids-are-the-same",
        "tests/unit/test_randomness.py::test_threads_that_draw_at_the_same_time_draw_different_bits",
    ),
    Mutation(
        "660-filters-of-idle-partitions-crowd-out-writes",
        "tests/unit/stores/test_rocksdb.py::test_idle_partitions_take_no_room_from_the_writes_of_a_busy_one",
    ),
    Mutation("661-fields-are-written-by-their-own-names", f"{_FIELD_NAMES}field_with_an_alias_arrives[Paid]"),
    Mutation("662-a-lost-field-is-written", f"{_FIELD_NAMES}field_that_would_be_lost_is_refused[split]"),
    Mutation(
        "663-a-class-that-writes-itself-has-known-names",
        "tests/unit/test_group_state.py::test_what_a_class_writes_in_its_own_way_is_not_mixed_with_what_was_stored[root]",
    ),
    Mutation(
        "664-a-client-keeps-its-owner",
        "tests/unit/kafka/test_feed_input.py::test_a_closed_input_is_freed_without_the_garbage_collector",
    ),
    Mutation("665-infinity-becomes-none", f"{_FIELD_NAMES}float_that_json_does_not_have_is_refused[optional]"),
    Mutation(
        "666-a-failed-block-is-left-for-the-next",
        "tests/unit/test_client.py::test_nothing_of_a_block_that_fails_is_left_for_the_next_one",
    ),
    Mutation("667-a-key-stays-for-the-next-block", "tests/unit/test_client.py::test_a_key_is_that_of_one_block"),
    Mutation(
        "670-another-value-arrives",
        "tests/unit/test_avro_values.py::test_a_value_that_would_arrive_as_another_one_is_refused[long]",
    ),
    Mutation(
        "671-a-process-that-stands-still-stays",
        "tests/acceptance/test_run.py::test_a_handler_that_holds_the_interpreter_lock_has_its_process_replaced_until_its_message_is_given_up_on",
    ),
    Mutation(
        "672-pieces-from-before-a-restart-are-joined",
        "tests/simulation/test_pieces.py::test_pieces_that_come_to_several_workers_are_not_joined_either",
    ),
    Mutation(
        "673-a-missing-fragment-is-not-missed",
        "tests/unit/worker/test_growing.py::test_a_fragment_that_comes_again_after_an_undone_step_is_not_added_twice",
    ),
    Mutation(
        "674-only-one-way-of-writing-is-tried",
        "tests/unit/test_typed_json.py::test_a_class_that_cannot_be_read_in_one_way_is_written_in_another",
    ),
    Mutation(
        "675-a-state-of-anything-is-not-read",
        "tests/unit/test_typed_json.py::test_a_state_of_anything_that_is_not_read_is_not_stored[a long number]",
    ),
    Mutation(
        "677-a-process-has-no-time-for-a-long-step",
        "tests/unit/ops/test_standstill.py::test_a_healthy_process_has_time_for_its_longest_step[long-handlers]",
    ),
    Mutation(
        "676-a-closed-producer-forgets-what-it-has-not-sent",
        "tests/integration/kafka/test_commands.py::test_a_large_command_lets_others_go_in_between_and_is_whole_when_its_producer_is_closed",
    ),
    Mutation(
        "678-a-large-command-holds-others-up",
        "tests/integration/kafka/test_commands.py::test_a_large_command_lets_others_go_in_between_and_is_whole_when_its_producer_is_closed",
    ),
    Mutation(
        "679-a-later-command-overtakes-a-large-one",
        "tests/integration/kafka/test_commands.py::test_a_large_command_lets_others_go_in_between_and_is_whole_when_its_producer_is_closed",
    ),
    Mutation("668-tags-are-words-of-schemas", f"{_FIELD_NAMES}tag_may_be_a_word_of_pydantics_schemas[type]"),
    Mutation(
        "669-unreadable-state-is-stored",
        "tests/unit/test_group_state.py::test_state_that_its_class_does_not_read_is_not_stored",
    ),
)
