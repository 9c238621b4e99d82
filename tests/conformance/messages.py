"""System messages: Error, EndDialog, DialogTimer and event notifications."""

from tests.conformance import files
from tests.conformance.row import Chapter, better, different, same

MESSAGES = Chapter(
    "messages",
    "System messages",
    "Service Broker puts messages of its own into the queue of the application. Here they are calls of handlers.",
    (
        different(
            "messages.error.form",
            "An Error is a message with an XML body of a code and a description.",
            "`on_error` gets a `PeerError` with code, name, class and description.",
            f"{files.ENDS}an_application_error_reaches_the_other_side_with_its_code",
            f"{files.CODES}an_error_of_a_peer_has_the_name_and_the_class_of_its_code",
            reason="a handler needs the values, and no text to take apart",
        ),
        same(
            "messages.error.sign",
            "Codes of the broker are negative in the Error message, and codes of applications are positive.",
            "The same, in `PeerError` and on the wire; a code that is in no table is passed on unchanged.",
            f"{files.CODES}system_codes_are_negative_and_other_codes_positive",
            f"{files.CODES}an_error_of_a_peer_with_a_code_in_no_table_is_passed_on_unchanged",
        ),
        same(
            "messages.error.application",
            "An Error of an application has the next number of its direction.",
            "It has the next number of its direction.",
            f"{files.ENDPOINT}an_error_of_the_application_takes_the_next_number",
        ),
        same(
            "messages.error.broker",
            "An Error of the broker has no number, and may overtake messages.",
            "It has no number, and is told at once.",
            f"{files.ENDPOINT}what_breaks_here_is_told_to_a_peer_that_may_still_wait",
            f"{files.MEMORY}a_gap_is_asked_for_three_times_then_the_dialog_breaks",
        ),
        same(
            "messages.end",
            "An EndDialog has no body, has a number, and is the last message of its direction.",
            "An END has no body and takes the number after all messages.",
            f"{files.ENDPOINT}an_end_takes_the_next_number",
        ),
        same(
            "messages.timer",
            "A DialogTimer has no body and exists only in the queue of the side that set it.",
            "`on_timer` is called without a message, and no record is sent.",
            f"{files.DIALOG}there_is_no_message_in_a_timer",
            f"{files.ENDS}a_timer_is_of_one_side_and_neither_is_sent_nor_changes_the_lifetime",
        ),
        better(
            "messages.unhandled",
            "Every application must handle Error and EndDialog, and usually ends the dialog then; nothing tells that it does not.",
            "Without `on_end` the side ends by itself; without `on_error` it ends and is reported (DIALOG_BROKEN).",
            f"{files.BROKEN}an_expired_dialog_without_a_handler_is_reported_by_its_own_side",
            f"{files.BROKEN}a_dialog_whose_handler_is_told_is_not_reported",
            f"{files.MACHINE}an_end_closes_both_sides",
        ),
        better(
            "messages.unhandled.types",
            "A message type that the application does not handle is received all the same, and often consumed silently.",
            "A service does not start without a handler for each message type that it may receive, or a line that ignores it.",
            f"{files.SERVICE}a_gap_is_named_with_the_contract_and_the_side_that_sends",
            f"{files.SERVICE}a_type_may_be_ignored_by_name_or_class",
        ),
        same(
            "messages.error.once",
            "An endpoint that is in ER already stays in ER, whatever comes.",
            "Only the first error is told to the application, and again only if the handler was interrupted.",
            f"{files.ENDPOINT}only_the_first_error_is_told_to_the_application",
            f"{files.MEMORY}on_error_interrupted_by_a_crash_runs_again",
        ),
        same(
            "messages.error.classes",
            "Errors of the broker have classes: what is lost may be sent again after some, and never after others or after an unknown code.",
            "`PeerError.error_class` has the class; an unknown code is unclassified, and a positive one is the application's.",
            f"{files.CODES}system_codes_have_the_classes_of_service_broker",
            f"{files.CODES}an_error_of_a_peer_with_a_code_in_no_table_is_passed_on_unchanged",
        ),
        different(
            "messages.notifications",
            "Events of the broker are messages of a built-in contract, in XML, to a service that subscribed to them.",
            "Events are records of the events topic, in JSON, which every program may read.",
            f"{files.EVENTS}an_event_has_these_bytes_and_is_read_back",
            f"{files.EVENTS}every_event_is_in_this_list",
            reason="whoever watches the product need not be a service of it",
        ),
    ),
)
