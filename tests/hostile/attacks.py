"""Attacks on the product from outside. Each has a test that shows that the attack fails, or a decision that explains why it is allowed."""

from typing import NamedTuple


class Attack(NamedTuple):
    """One attack that a program or a person outside may try."""

    what: str
    test: str = ""
    """Node id of the test, without parameters; "" if there is a decision."""
    decision: str = ""
    """File in docs/decisions that explains what is done about the attack, or why nothing is done; "" if there is a test."""


_LIMITS = "tests/bad_input/test_limits.py::test_nothing_is_built_of_a_list_before_its_length_is_known_to_be_allowed"
_BOUNDS = "tests/simulation/test_bounds.py::test_"
_TEXT = "tests/hostile/test_text.py::test_"
_RECORDS = "tests/hostile/test_records.py::test_"
_COMMANDS = "tests/hostile/test_commands.py::test_"
_PRIVATE = "tests/hostile/test_private_files.py::test_"
_SHOWN = f"{_COMMANDS}no_command_fails_at_or_passes_on_what_somebody_wrote"
_OUTSIDE = "0022-what-comes-from-outside.md"
_STRANGERS = "tests/hostile/test_strangers.py::test_"
_FORWARDED = (
    "tests/bad_input/test_commands.py::test_a_command_in_the_wrong_partition_is_forwarded_and_takes_effect_once"
)
_BAD_RECORD = "tests/bad_input/test_wire.py::test_a_bad_record_has_its_outcome_and_harms_nobody"

ATTACKS = (
    Attack("a header name that is not UTF-8, of a genuine record", "tests/bad_input/test_wire.py::test_headers_that_no_receiver_reads_change_nothing"),
    Attack("100,000 headers of a genuine record", "tests/bad_input/test_wire.py::test_headers_that_no_receiver_reads_change_nothing"),
    Attack("a header name that is not UTF-8, of a record that is none", "tests/crashes/test_breakdowns.py::test_a_record_with_a_header_that_cannot_be_read_is_set_aside"),
    Attack("unreadable headers, which end the process if they are read twice", "tests/crashes/test_breakdowns.py::test_a_record_with_a_header_that_cannot_be_read_is_set_aside"),
    Attack("a command that closes a letter with a negative offset", "tests/crashes/test_breakdowns.py::test_a_letter_before_the_first_record_is_not_open"),
    Attack("a sender whose topics the worker may not describe", "tests/rights/test_rights.py::test_a_peer_that_may_not_be_written_to_waits_and_stops_nobody"),
    Attack("a sender whose queue the worker may not write", "tests/rights/test_rights.py::test_a_peer_that_may_not_be_written_to_waits_and_stops_nobody"),
    Attack("8 records of 240 MB, compressed to 1.9 MB with gzip", "tests/integration/kafka/test_topic_settings.py::test_a_brokers_limit_is_on_what_is_unpacked"),
    Attack("a genuine tick after an idle hour", "tests/rules/test_time.py::test_an_idle_queue_is_brought_forward_by_a_genuine_tick"),
    Attack("a tick from a client that may write commands", "tests/rules/test_time.py::test_an_idle_queue_is_brought_forward_by_a_genuine_tick"),
    Attack("a queue record with an empty header name, or a header name with NUL", _BAD_RECORD),
    Attack("an acknowledgement with 1.49 million skipped numbers", _LIMITS),
    Attack("an acknowledgement with 740,000 lists of skipped numbers", _LIMITS),
    Attack("a command with 1.49 million operations", _LIMITS),
    Attack("a command with 740,000 timers", _LIMITS),
    Attack("2,000 messages of zeros that are held behind a gap", f"{_BOUNDS}a_partition_holds_only_so_many_bytes_and_a_dialog_without_a_gap_goes_on"),
    Attack("1,000 messages of random bytes that are held behind a gap", f"{_BOUNDS}a_dialog_holds_only_so_many_bytes_behind_a_gap"),
    Attack("a refused record with the number 2,000", f"{_BOUNDS}a_refused_number_says_nothing_of_those_before_it"),
    Attack("late messages with descending numbers", f"{_BOUNDS}a_dialog_that_is_over_misses_only_so_many_numbers"),
    Attack(
        "records from invented peers, one peer after the other",
        "tests/simulation/test_senders.py::test_invented_senders_leave_their_bytes_and_nothing_else",
    ),
    Attack(
        "large replies to invented peers",
        f"{_BOUNDS}answers_wait_for_a_queue_that_takes_none_up_to_a_limit_and_then_their_questions_do",
    ),
    Attack("a key that equals the id of another peer's conversation", "tests/simulation/test_groups.py::test_a_peer_cannot_pull_another_ones_dialog_into_its_group"),
    Attack("4,000 dialogs in one group", f"{_BOUNDS}the_row_of_a_group_is_made_once_in_a_step"),
    Attack("unique names that would clear the decoder's caches", "tests/properties/test_envelope_codec.py::test_caches_of_the_decoder_stay_bounded"),
    Attack("a record that makes a service write to another service", decision=_OUTSIDE),
    Attack("a queue turned off in the name of another operator", decision=_OUTSIDE),
    Attack("a queue turned off by a client that may write commands", "tests/rights/test_printed_roles.py::test_who_may_write_commands_may_not_decide"),
    Attack("a line break in the reason for turning a queue off", f"{_TEXT}no_line_of_a_text_log_is_forged_and_none_steers_a_terminal"),
    Attack("a line break in a body that an exception repeats", f"{_TEXT}no_line_of_a_text_log_is_forged_and_none_steers_a_terminal"),
    Attack("ESC in a body or an exception that a command lists", _SHOWN),
    Attack("a line break in an exception that a command shows", _SHOWN),
    Attack("ESC in the names, the key and the error of a dialog that a command lists or ends", _SHOWN),
    Attack("ESC in a message type in an archive", f"{_TEXT}nothing_that_is_not_printable_is_left_in_a_line"),
    Attack("ESC in the outcomes of an event", _SHOWN),
    Attack("ESC in names and delays in the catalog", _SHOWN),
    Attack("an event that is not JSON, or not a JSON object", f"{_RECORDS}an_event_that_is_none_is_left_out_and_named"),
    Attack("a letter with text in headers that must be numbers, or with unreadable header names", f"{_RECORDS}a_letter_with_numbers_that_are_none_is_listed_as_foreign"),
    Attack("a service without topics, or an entry with wrong types, in the catalog", f"{_COMMANDS}a_service_without_topics_is_named_and_left_out"),
    Attack("a hostile schema in the catalog", f"{_RECORDS}a_schema_nothing_can_be_read_with_is_left_out_of_spark_jobs"),
    Attack("200,000 entries in the catalog", decision=_OUTSIDE),
    Attack(
        "invented services in the archive",
        "tests/spark/test_archive.py::test_what_claims_to_be_of_a_service_that_is_none_has_no_folder_of_its_own",
    ),
    Attack("service names with .., /, line breaks, ESC or 129 characters", f"{_RECORDS}a_service_that_none_can_be_called_is_left_out"),
    Attack("a file path as the name of a redrive", "tests/unit/ops/test_redrive_plan.py::test_a_plan_that_was_edited_wrongly_is_refused"),
    Attack("deeply nested JSON, very long numbers, forged counts and nesting in Avro", _BAD_RECORD),
    Attack("silent connections to the health page", "tests/hostile/test_health.py::test_as_many_silent_connections_as_descriptors_cost_the_supervisor_none"),
    Attack("a module in the current directory with the name of a Python module", f"{_PRIVATE}nothing_of_the_current_directory_takes_the_place_of_pythons_modules"),
    Attack("a password in the settings that are shown", f"{_PRIVATE}no_password_is_in_what_is_shown_of_settings"),
    Attack("a quotation mark in a user name", "tests/unit/spark/test_wire.py::test_settings_are_said_as_java_clients_want_them"),
    Attack("another user who reads the local state", f"{_PRIVATE}local_state_the_cache_slots_and_locks_are_their_owners_alone"),
    Attack("a planted file, with a held lock, that names another process as a broker", f"{_PRIVATE}a_process_that_is_no_broker_is_not_ended"),
    Attack(
        "dots in namespaces, services and slots",
        "tests/integration/kafka/test_admin.py::test_a_service_that_would_share_its_topics_with_another_is_refused",
    ),
    Attack("a misrouted command with a header name that is not UTF-8", _FORWARDED),
    Attack("a misrouted command with 3 MB of headers", _FORWARDED),
    Attack("1,000 records of 1.4 MB, compressed to 1.4 MB with gzip", f"{_BOUNDS}what_a_step_reads_is_bounded_too"),
    Attack("requests with large replies", f"{_BOUNDS}a_step_takes_on_only_so_many_bytes_and_leaves_nothing_out"),
    Attack("more invented peers than the cache holds", f"{_STRANGERS}invented_peers_do_not_outgrow_the_cache"),
    Attack("an endless series of invented names", f"{_STRANGERS}names_that_nobody_has_are_not_remembered_for_ever"),
    Attack(
        "groups with more dialogs than fit in memory",
        "tests/simulation/test_memory_of_dialogs.py::test_an_endpoint_dropped_from_memory_shares_its_groups_lane",
    ),
    Attack("an endless series of messages that fail", "tests/simulation/test_brake.py::test_one_peer_brakes_its_own_messages_alone"),
    Attack("an endless series of dialogs that break", "tests/simulation/test_broken_dialogs.py::test_a_flood_of_broken_dialogs_is_one_event_a_minute"),
    Attack("an endless series of invented error codes", "tests/simulation/test_broken_dialogs.py::test_codes_that_a_peer_invents_are_one_kind"),
    Attack("an endless series of dialogs that wait for an operator", decision=_OUTSIDE),
)  # fmt: skip
