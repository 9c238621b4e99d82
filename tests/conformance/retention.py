"""Retention: messages that are kept after they were received or sent."""

from tests.conformance import files
from tests.conformance.row import Chapter, absent, better, different

RETENTION = Chapter(
    "retention",
    "Retention",
    "RETENTION = ON keeps the messages of a dialog in the queue until the dialog ends. Here Kafka's topics keep every record for some days, and\n"
    "[the archive](spark.md#the-archive) keeps the messages for as long as you want.",
    (
        different(
            "retention.received",
            "Received messages stay in the queue as retained rows until this side ends the dialog.",
            "Records stay in the topic for a week, or longer if dialogs live longer, whatever was done with them.",
            f"{files.TOPIC_SETTINGS}inputs_are_kept_for_longer_than_dialogs_live",
            reason="a log keeps its records anyway, and nobody must turn this on",
        ),
        different(
            "retention.sent",
            "Sent messages are copied into the sender's queue as retained rows.",
            "A sent message is in the queue topic of its target, and the archive has both directions of a dialog.",
            f"{files.ARCHIVE}everything_is_archived_once_in_order_and_stays_so",
            f"{files.ARCHIVE}one_dialog_is_shown_without_kafka_and_in_utc",
            reason="the same record serves the delivery and the archive, so nothing is written twice",
        ),
        better(
            "retention.after-end",
            "Retained rows are deleted when the dialog ends, so an application must copy them before END.",
            "The archive has a message once and in order, also when the dialog has ended, and also when Kafka has deleted the record.",
            f"{files.ARCHIVE}everything_is_archived_once_in_order_and_stays_so",
            f"{files.ARCHIVE}records_that_kafka_dropped_stop_it_until_a_person_accepts_the_hole",
        ),
        absent(
            "retention.query",
            "An application selects the retained rows of a dialog in its transaction, for example to undo its steps backwards.",
            "A handler cannot read the earlier messages of its dialog; it keeps what it needs in the state of the group.",
            f"{files.ORDERS}a_late_payment_is_paid_back",
            reason="never: a worker has no store of handled messages. The open dialogs of the group are the list of steps to undo",
        ),
        better(
            "retention.growth",
            "A long dialog with retention grows without a limit.",
            "Topics keep records for a time, not for a dialog, and a settled message leaves no row.",
            f"{files.TOPIC_SETTINGS}inputs_are_kept_for_longer_than_dialogs_live",
            f"{files.FAILURES}nothing_is_left_of_a_wait_that_is_over",
        ),
    ),
)
