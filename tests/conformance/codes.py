"""Error codes: those of error messages, those of statements, and those that Service Broker does not have.

The number, the text, who finds an error, who is told, and why a code is absent are in the table of codes. Here is only the rest.
"""

from tests.conformance import files
from tests.conformance.row import (
    Chapter,
    absent_codes,
    better_code,
    different_code,
    join,
    replaced_code,
    same_code,
)

_COMMANDS = "Service Broker has no commands: a client writes a command, and the owner of the dialog finds later that it cannot be carried out"
_CALLS = f"{files.DIALOG}a_wrong_request_raises_at_once_and_changes_nothing"
_COMMAND_ROWS = f"{files.BAD_COMMAND}a_bad_command_has_its_outcome_and_harms_nobody"

ERRORS = Chapter(
    "errors",
    "Codes of error messages",
    "These codes tell a side that its dialog broke. [The table of codes](codes.md) has their classes and what to do. All of Service Broker's codes\n"
    "that are raised here have its numbers and its classes. Service Broker tells the sender of a message that breaks the contract; here the side\n"
    "that finds it breaks, too, so its `on_error` is called.",
    join(
        same_code(-8408, f"{files.ENDS}a_contract_that_is_not_accepted_is_refused_once"),
        same_code(
            -8430,
            f"{files.BAD_RECORD}",
            f"{files.BODIES}a_message_without_a_body_has_none",
            theirs="A body arrived for a message type that is declared without one.",
        ),
        same_code(-8437, f"{files.ENDS}a_target_that_sends_what_only_the_initiator_may_breaks_the_dialog"),
        same_code(
            -8457,
            f"{files.ENDS}a_message_the_receivers_contract_does_not_allow_breaks_the_dialog",
            f"{files.BAD_RECORD}",
        ),
        different_code(
            -8459,
            f"{files.REFUSED_RECORDS}one_answer_that_its_destination_does_not_take_ends_its_dialog_alone",
            f"{files.REFUSED_RECORDS}what_was_refused_ends_its_dialog_also_after_a_crash",
            theirs="SEND refuses a body that is too large, so no message can be too large for its destination.",
            reason="a topic of Kafka has a limit of its own, which its owner may lower at any time",
        ),
        different_code(
            -8462,
            f"{files.ENDS}a_cleanup_tells_nobody_and_nothing_begins_the_dialog_again",
            f"{files.MEMORY}a_gap_is_asked_for_three_times_then_the_dialog_breaks",
            f"{files.ENDS}a_first_message_that_comes_too_late_is_refused",
            theirs="The peer goes on sending to an endpoint that is closed or dropped.",
            reason="it also tells that a message is missing for good, that a first message came too late, and that a limit is reached; what the "
            "application can do is the same",
        ),
        same_code(
            -8489,
            f"{files.ENDS}a_lifetime_ends_on_both_sides_with_8489",
            f"{files.ENDS}a_service_that_comes_up_handles_only_dialogs_that_still_live",
        ),
        different_code(
            -8494,
            f"{files.REFUSED_RECORDS}a_destination_that_may_not_be_written_to_delays_its_dialogs_and_then_breaks_them",
            f"{files.SHARED}the_target_refuses_a_service_that_permits_itself",
            f"{files.ACCEPTS_FROM}only_the_named_services_may_begin_dialogs",
            theirs="The sender has no right to send to the service; the target tells it.",
            reason="Kafka refuses the record, so the sender's own worker finds it; the target finds who names its groups, and whom its accepts_from does not name",
        ),
        better_code(
            -8498,
            f"{files.ENDS}a_message_the_receivers_contract_does_not_allow_breaks_the_dialog",
            f"{files.RELEASES}a_type_that_this_release_does_not_know_is_held",
            ours="By default the message is held for a release that knows its type; a policy that ends dialogs sends -8498.",
        ),
        better_code(
            -9615,
            f"{files.ENDS}an_invalid_body_from_the_initiator_breaks_the_dialog_with_9615",
            f"{files.RELEASES}a_body_that_does_not_fit_is_held_and_handled_by_the_release_with_the_upgrade",
            f"{files.RELEASES}bytes_that_no_release_could_send_break_the_dialog",
            ours="A body that is not JSON breaks the dialog with the wrong field named; one that does not fit is held by default.",
        ),
        same_code(-9616, f"{files.ENDS}an_invalid_body_from_the_target_breaks_the_dialog_with_9616"),
        replaced_code(-8425, f"{files.ENDS}a_contract_that_is_not_accepted_is_refused_once"),
        replaced_code(-8428, f"{files.ENDS}a_message_the_receivers_contract_does_not_allow_breaks_the_dialog"),
        replaced_code(-8472, f"{files.BAD_RECORD}"),
        replaced_code(-8475, f"{files.ENDS}a_cleanup_tells_nobody_and_nothing_begins_the_dialog_again"),
        replaced_code(-8490, f"{files.CLIENT}a_dialog_with_a_service_that_nobody_knows_is_refused_unless_it_may_wait"),
        replaced_code(-8499, f"{files.BAD_RECORD}"),
        absent_codes(-8468, -8469, -8470, -8487, -8495, -9719, -9720, -28052, -28058),
        same_code(
            500,
            f"{files.ENDS}the_fourth_failure_ends_the_dialog_with_error_500",
            f"{files.POLICIES}each_failure_follows_the_first_policy_that_matches",
            theirs="An application ends the dialog with a positive code of its own; the sample for poison messages uses 500.",
            ours="A policy that ends dialogs uses 500, unless it names another code.",
        ),
    ),
)

STATEMENTS = Chapter(
    "statements",
    "Codes of refused requests",
    "These codes refuse a request of a caller, and nothing has changed.",
    join(
        same_code(8403, f"{files.CONTRACT}a_type_named_twice_is_refused"),
        same_code(8404, f"{files.SERVICE}two_contracts_of_one_name_are_a_mistake"),
        same_code(8410, f"{files.DIALOG}a_timer_that_would_never_fire_is_refused", _COMMAND_ROWS),
        same_code(
            8411,
            f"{files.CONTRACT}a_lifetime_is_positive",
            f"{files.LIFETIMES}a_longer_lifetime_than_that_of_the_contract_is_refused_at_once",
            f"{files.BAD_CALL}",
            _CALLS,
            theirs="The lifetime is outside the range of 1 to 2,147,483,647 seconds.",
        ),
        same_code(8412, f"{files.BAD_CALL}", _CALLS),
        same_code(8414, f"{files.BAD_CALL}", _COMMAND_ROWS),
        same_code(8419, f"{files.BAD_CALL}", _CALLS),
        same_code(8422, f"{files.BAD_CALL}", _CALLS),
        same_code(8425, f"{files.CLIENT}a_contract_the_service_does_not_initiate_is_refused", _CALLS),
        same_code(8426, f"{files.BAD_CALL}", _COMMAND_ROWS, f"{files.IDENTIFIERS}another_text_is_not_a_handle"),
        same_code(
            8427,
            f"{files.STATES}refusals_carry_service_brokers_numbers",
            f"{files.CLIENT}after_the_end_the_block_is_over",
        ),
        same_code(
            8429, f"{files.STATES}only_the_open_states_may_send", f"{files.CLIENT}after_the_end_the_block_is_over"
        ),
        different_code(
            8430,
            f"{files.BODIES}a_message_without_a_body_has_none",
            theirs="SEND takes a body for a message type that has none; only the receiver refuses it.",
            reason="the sender can know it, so it is told at once",
        ),
        same_code(8431, f"{files.CONTRACT}an_unknown_type_is_refused_and_the_known_ones_named", _CALLS),
        same_code(8432, f"{files.CONTRACT}the_wrong_direction_is_refused_with_its_number", _CALLS),
        same_code(8434, f"{files.CONTRACT}the_wrong_direction_is_refused_with_its_number", _CALLS),
        same_code(
            8458,
            f"{files.STATES}a_timer_is_refused_where_the_dialog_is_over_here",
            f"{files.CLIENT}after_the_end_the_block_is_over",
        ),
        different_code(
            8459,
            f"{files.BAD_CALL}",
            f"{files.REFUSED_RECORDS}a_handler_learns_at_once_that_what_it_asks_for_fits_no_command",
            theirs="A body may have two gigabytes.",
            reason="a message is one record of Kafka, and a record has a limit of bytes",
        ),
        better_code(
            8490,
            f"{files.CLIENT}a_dialog_with_a_service_that_nobody_knows_is_refused_unless_it_may_wait",
            f"{files.UNKNOWN}a_misspelt_service_fails_the_handler_and_the_message_is_held",
            theirs="Nobody refuses an unknown target service when a dialog begins.",
        ),
        same_code(8492, f"{files.CONTRACT}the_initiator_must_be_able_to_begin"),
        different_code(
            8494,
            f"{files.SHARED}only_a_contract_that_permits_it_lets_a_service_name_the_group",
            theirs="A caller without the right to send gets an error.",
            reason="only a contract with `group_named_by` lets a service name groups of others; all other rights are Kafka's",
        ),
        better_code(
            9615,
            f"{files.BODIES}a_model_that_was_built_without_validation_is_not_sent",
            f"{files.BAD_CALL}",
            _CALLS,
            theirs="SEND does not validate the body.",
        ),
        replaced_code(8406, f"{files.CLIENT}lifetimes_are_the_dialogs_the_contracts_or_unlimited"),
        replaced_code(8428, f"{files.CONTRACT}an_unknown_type_is_refused_and_the_known_ones_named"),
        replaced_code(8433, f"{files.BODIES}a_body_of_another_kind_is_not_sent"),
        replaced_code(9617, f"{files.SWITCH}an_operator_turns_a_queue_off_and_on"),
        replaced_code(9618, f"{files.SWITCH}an_operator_turns_a_queue_off_and_on"),
        replaced_code(28006, f"{files.RIGHTS}a_right_of_its_own_that_is_missing_at_the_start_is_named"),
        absent_codes(8413, 8417, 8418, 8420, 8421, 8423, 8424, 8436, 8438, 8439, 8442, 8447, 8450),
        absent_codes(9610, 9613, 9614, 9620, 9648, 9653, 9717, 9718),
    ),
)

OWN = Chapter(
    "own",
    "Codes that Service Broker does not have",
    "Their numbers are above those of SQL Server ([decision 0035](decisions/0035-one-table-of-codes.md)).",
    join(
        different_code(50001, _COMMAND_ROWS, reason=_COMMANDS, theirs="A statement does one thing."),
        different_code(
            50002,
            f"{files.MEMORY}a_begin_with_the_id_of_a_dialog_that_a_handler_began_is_refused",
            reason=_COMMANDS,
            theirs="The broker draws the id of a dialog, so it is always new.",
        ),
        different_code(
            50003,
            f"{files.MEMORY}a_begin_with_the_same_id_and_another_content_is_refused",
            _COMMAND_ROWS,
            reason=_COMMANDS,
            theirs="No statement has an idempotency key.",
        ),
        different_code(50004, _COMMAND_ROWS, reason=_COMMANDS, theirs="A statement is carried out at once."),
        different_code(
            50005,
            f"{files.DECISIONS}two_operators_decide_once",
            reason="Service Broker has no operator's decisions about one message",
            theirs="Operators do not decide about one message.",
        ),
        different_code(
            50006,
            "tests/crashes/test_breakdowns.py::test_a_letter_before_the_first_record_is_not_open",
            "tests/simulation/test_letters.py::test_letters_are_open_until_they_are_closed_once",
            reason="Service Broker keeps no dead letters",
            theirs="There are no dead letters.",
        ),
        different_code(
            50007,
            f"{files.GROUPS}a_client_begins_no_dialog_in_a_full_group",
            reason="the row of a group names its dialogs, and a row has a limit of bytes",
            theirs="A group has any number of dialogs.",
        ),
        different_code(
            50008,
            f"{files.MEMORY}a_send_to_a_queue_for_which_too_much_waits_already_is_refused",
            f"{files.BOUNDS}answers_wait_for_a_queue_that_takes_none_up_to_a_limit_and_then_their_questions_do",
            reason="everything that may grow has a limit here",
            theirs="The transmission queue has no limit but the disk.",
        ),
        different_code(
            50009,
            "tests/simulation/test_decisions_topic.py::test_a_decision_through_commands_is_refused_and_does_nothing",
            "tests/simulation/test_decisions_topic.py::test_a_clients_command_through_decisions_is_refused_and_does_nothing",
            reason="Kafka gives rights on topics, so decisions of operators have a topic of their own",
            theirs="Each statement checks the rights of its user.",
        ),
    ),
)
