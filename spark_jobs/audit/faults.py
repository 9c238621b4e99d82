"""Every fault that the audit knows, by name, with its meaning. The *wire* means the records in the queues."""

from __future__ import annotations

from collections.abc import Mapping

RECORD_FAULTS: Mapping[str, str] = {
    "not-set-aside": "a record that belongs to no dialog was read, but it is not kept as a dead letter",
    "letter-unfounded": "a dead letter names a record that never existed",
    "letter-unread": "a dead letter names a record that was not read yet",
    "letter-bytes": "a dead letter does not have the bytes of its record",
    "letter-twice": "a record has more than one final dead letter",
    "letter-mislabelled": "a dead letter names another dialog, direction or number than its record",
    "letter-row-alone": "a row names an open dead letter that does not exist",
    "letter-not-open": "a dead letter was not closed, and no row names it as open",
    "event-without-letter": "an event reports that a record was set aside, and the record has no dead letter",
}
"""Faults of one record, or of a letter, row or event about one record."""
NUMBER_FAULTS: Mapping[str, str] = {
    "number-twice": "two records with this number have different content",
    "unaccounted": "it was read, but it is neither accepted, nor kept as a row or a dead letter",
    "lost": "its receiver left it to the sender, which neither keeps it, nor gave it back, nor sent it again on a new dialog",
    "twice": "it was accepted, and its sender also gave it back, or sent it again on a new dialog",
    "accepted-unread": "it was accepted, but the position of the partition shows that its record has not been read",
    "held-below": "it is held as a row, but it was accepted, or its dialog is over",
    "kept-unsent": "a row keeps it, but it was never on the wire",
    "kept-twice": "more than one row keeps it",
    "kept-bytes": "the row that keeps it has other content than its record on the wire",
    "parked-settled": "a row keeps it as not handled, but a final dead letter shows that it was given up on",
    "settled-unaccepted": "a dead letter shows that its handler failed, but it was never accepted",
    "settled-early": "it was settled, but a message before it still waits",
    "wrong-side": "it was accepted and handled, but only the other side may send its message type",
    "delayed-sent": "it was sent, but a row still keeps it as delayed",
    "after-end": "it was sent after the end of its direction",
    "skip-unreported": "an acknowledgement names it as skipped, but no event reports the skip",
    "decision-unreported": "an operator decided about it, but no event reports the decision",
}
"""Faults of one number of a direction."""
SIDE_FAULTS: Mapping[str, str] = {
    "missing-on-wire": "numbers that were sent are neither on the wire, nor kept by their sender, nor given back",
    "sent-again-less": "numbers that were not accepted are missing on the dialog that replaces this one",
    "sent-again-more": "numbers that were accepted were sent again on the dialog that replaces this one",
    "accepted-unsent": "accepted numbers are not on the wire",
    "accepted-unsettled": "messages were accepted, but are neither handled, nor kept as rows or dead letters",
    "settled-twice": "the messages that were handled, or are kept as rows or dead letters, outnumber the accepted messages",
    "sent-uncounted": "the wire has a higher number than the sender's row shows",
    "endpoint-missing": "messages were read, but the receiver has no row of the dialog",
    "sender-missing": "messages are on the wire, but their sender has no row of the dialog",
    "endpoint-untraced": "the target has a row of the dialog, but no record of the dialog was ever on the wire",
    "endpoint-twice": "the receiving side has more than one row",
    "acknowledged-unsent": "more numbers were acknowledged than were sent",
    "acknowledged-unaccepted": "more numbers were acknowledged than the receiver accepted",
    "acknowledged-untold": "the acknowledged number in the sender's row is higher than in all acknowledgements on the wire",
    "letters-miscounted": "the receiver's count of dead letters differs from the number of its dead letters",
    "error-unheard": "an ERROR was read, but the state of the receiving side does not show it",
    "park-empty": "the dialog is parked, but there is no parked message",
    "parked-hole": "parked messages are missing",
    "parked-disorder": "the numbers of the parked messages do not follow each other",
    "parked-astray": "messages are parked, but their dialog is not parked, or is over",
    "accepted-fell": "the receiver's row went back to a lower accepted number",
    "sent-fell": "the sender's row went back to a lower sent number",
    "acknowledged-fell": "the sender's row went back to a lower acknowledged number",
    "revived": "the receiving side was closed, but has an open endpoint again",
    "forgotten-early": "the row of the receiving side was deleted too early",
    "group-missing": "the receiving side belongs to a group with state or other dialogs, but the group has no row",
}
"""Faults that are found when the two sides of a direction and the wire are compared."""
PARTITION_FAULTS: Mapping[str, str] = {
    "position-ahead": "the position of a partition is larger than the end of its queue",
    "position-fell": "the position of a partition, or its log time, went back to a lower value",
    "partition-missing": "a partition has rows, but not the row with its position",
    "row-broken": "rows cannot be decoded",
}
"""Faults of a partition."""
FAULTS: Mapping[str, str] = {**RECORD_FAULTS, **NUMBER_FAULTS, **SIDE_FAULTS, **PARTITION_FAULTS}
