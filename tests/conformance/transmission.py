"""Why a message is not transmitted, or not taken: Service Broker shows it in a status and in traces, and never as a message."""

from tests.conformance import files
from tests.conformance.row import Chapter, absent, better, different, same

_NO_KEYS = "when bodies are encrypted or sealed (not built yet): today dialogs have no keys and no certificates"
_NO_HOPS = "never: every worker reaches the whole cluster, so no record is forwarded"

TRANSMISSION = Chapter(
    "transmission",
    "Reasons of undelivered messages",
    "Service Broker shows these reasons in `transmission_status`, or in the trace event Broker:Message Undeliverable.",
    (
        better(
            "transmission.where",
            "The reasons stand in a column of the sender, and in a trace that somebody must have started at the target.",
            "A record that is not taken is a dead letter with its reason and bytes at its receiver, and an event.",
            f"{files.BAD_RECORD}",
            f"{files.REFUSED_RECORDS}one_answer_that_its_destination_does_not_take_ends_its_dialog_alone",
        ),
        better(
            "transmission.no-route",
            "The name of the target service is not found: the message waits.",
            "`begin_dialog` refuses an unknown service (8490), or its messages wait with `wait_for_service=True`.",
            f"{files.CLIENT}a_dialog_with_a_service_that_nobody_knows_is_refused_unless_it_may_wait",
            f"{files.MEMORY}what_was_sent_to_an_unknown_service_arrives_when_it_appears",
        ),
        absent(
            "transmission.dialog-security",
            "9727, 9731, 9733, 28024, 28025: the security of the dialog is not configured.",
            "Dialogs have no security of their own.",
            reason=_NO_KEYS,
        ),
        absent(
            "transmission.master-key",
            "28050, 28051, 28054: a session key or the master key is missing.",
            "Dialogs have no keys.",
            reason=_NO_KEYS,
        ),
        different(
            "transmission.closed",
            "11212: the endpoint at the target is closed.",
            "The message is a dead letter (`after-end`), once, and counts as accepted.",
            f"{files.ENDPOINT}messages_that_cross_our_end_are_discarded_and_counted",
            f"{files.MEMORY}a_replay_after_the_end_has_no_effect",
            reason="its bytes may matter to an operator, and its sender need not wait for an acknowledgement",
        ),
        better(
            "transmission.not-first",
            "11213: a message that is not the first arrived for an unknown dialog.",
            "It is held until the first message arrives.",
            f"{files.MEMORY}the_first_message_may_arrive_after_the_second",
        ),
        same(
            "transmission.refused",
            "11214, 11215: the target does not accept the contract, or the sender has no right; an Error says it, too.",
            "The target refuses the dialog with -8408 or -8494, and keeps the bytes.",
            f"{files.ENDS}a_contract_that_is_not_accepted_is_refused_once",
            f"{files.SHARED}the_target_refuses_a_service_that_permits_itself",
        ),
        absent(
            "transmission.in-progress",
            "11216: the same message is being processed at this moment.",
            "One worker owns a partition and takes its records one after the other.",
            reason="never: nobody else can process a record at the same time",
        ),
        better(
            "transmission.out-of-order",
            "11217: the message is out of sequence.",
            "It is held behind the gap, and a RESEND asks for what is missing.",
            f"{files.MEMORY}held_messages_follow_in_order_when_the_gap_closes",
            f"{files.ENDPOINT}a_gap_gets_a_second_then_questions_with_doubled_pauses_then_gives_up",
        ),
        same(
            "transmission.duplicate",
            "11218: the message is a duplicate.",
            "It is dropped, acknowledged again, and counted.",
            f"{files.MEMORY}a_replay_of_everything_has_no_effect",
            f"{files.ENDPOINT}a_duplicate_is_acknowledged_again",
        ),
        different(
            "transmission.queue-off",
            "11219: the target's queue is off.",
            "The message is accepted and parked, and its sender notices nothing.",
            f"{files.SWITCH}an_operator_turns_a_queue_off_and_on",
            reason="the topic takes the records anyway",
        ),
        same(
            "transmission.mismatch",
            "11222, 11223: service or contract is not that of the dialog.",
            "The record is set aside with its bytes, and the dialog goes on.",
            f"{files.BAD_RECORD}",
        ),
        absent(
            "transmission.another-instance",
            "11224: another instance of the service holds the dialog already.",
            "A service has one queue.",
            reason="when dialogs cross clusters: then two copies of a service may answer one dialog",
        ),
        same(
            "transmission.type",
            "11225 to 11228: message type or direction does not fit the contract.",
            "The dialog breaks with -8457 or -8437, or the message is held because this release does not know its type (-8498).",
            f"{files.ENDS}a_message_the_receivers_contract_does_not_allow_breaks_the_dialog",
            f"{files.ENDS}a_target_that_sends_what_only_the_initiator_may_breaks_the_dialog",
            f"{files.RELEASES}a_type_that_this_release_does_not_know_is_held",
        ),
        absent(
            "transmission.security-header",
            "11229 to 11233: the security header cannot be read, or its signature is wrong; the message is dropped silently.",
            "Envelopes have no security header.",
            reason=_NO_KEYS,
        ),
        different(
            "transmission.bad-ack",
            "28010: an acknowledgement has a number that was never sent.",
            "The acknowledgement is ignored, and the dialog goes on.",
            f"{files.ENDPOINT}an_acknowledgement_of_what_was_never_sent_is_not_believed",
            f"{files.BAD_RECORD}",
            reason="what else the envelope says may be right, and a wrong acknowledgement can do no harm",
        ),
        same(
            "transmission.unavailable",
            "28012 to 28018: the broker of the target is off, read-only or not reachable; messages wait.",
            "While the target's topic takes no records, envelopes wait as rows, and other dialogs go on.",
            f"{files.MEMORY}a_queue_that_refuses_records_delays_its_dialogs_and_no_other",
            "tests/rules/test_routing.py::test_a_destination_that_fails_delays_what_goes_there_and_nothing_else",
        ),
        absent(
            "transmission.forwarding",
            "11285 and 11288 to 11294: a forwarded message has used up its hops or its time, or its forwarder has no room.",
            "No record is forwarded.",
            reason=_NO_HOPS,
        ),
        same(
            "transmission.validation",
            "9704: the message failed XML validation.",
            "The body is validated before the handler is called; the bytes are kept.",
            f"{files.ENDS}an_invalid_body_from_the_initiator_breaks_the_dialog_with_9615",
            f"{files.RELEASES}a_body_that_does_not_fit_is_held_and_handled_by_the_release_with_the_upgrade",
        ),
        same(
            "transmission.back-off",
            "28072, 28073: the transmitter waits before its next attempt.",
            "A destination that takes no records is blocked for a pause, in all dialogs of the worker.",
            f"{files.DESTINATIONS}pauses_are_those_of_service_broker",
            f"{files.MEMORY}what_was_sent_to_an_unknown_service_arrives_when_it_appears",
        ),
        better(
            "transmission.corrupted",
            "28061 and others: the message is damaged, and is dropped with a trace event.",
            "A damaged record is set aside with its bytes, and the event SET_ASIDE says where it was.",
            f"{files.BAD_RECORD}",
            "tests/properties/test_envelope_codec.py::test_damaged_records_get_the_same_verdict_from_every_decoder",
        ),
    ),
)
