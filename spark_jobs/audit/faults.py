"""Every fault that the audit knows, by name, with its meaning."""

from __future__ import annotations

from collections.abc import Mapping

RECORD_FAULTS: Mapping[str, str] = {
    "not-set-aside": "a record that is no part of any dialog was read, and is not kept as a dead letter",
    "letter-unfounded": "a dead letter of a record that was never there",
    "letter-unread": "a dead letter of a record that was not read yet",
    "letter-bytes": "a dead letter that does not have the bytes of its record",
    "letter-twice": "a record has more than one final dead letter",
    "letter-mislabelled": "a dead letter says another dialog, direction or number than its record",
    "letter-row-alone": "a row says that a dead letter is open that does not exist",
    "letter-not-open": "a dead letter that nobody closed has no row that says that it is open",
    "event-without-letter": "an event says that a record was set aside, and there is no dead letter of it",
}
"""Faults of one record, or of a letter, row or event about one."""
NUMBER_FAULTS: Mapping[str, str] = {
    "number-twice": "two records with this number have different content",
    "unaccounted": "it was read, and is neither accepted, nor kept as a row or a dead letter",
    "accepted-unread": "it was accepted, and stands behind what the partition says it has read",
    "held-below": "it is held as a row, and was accepted, or its dialog is over",
    "kept-unsent": "a row keeps it, and it was never on the wire",
    "kept-twice": "more than one row keeps it",
    "kept-bytes": "the row that keeps it has other content than was sent",
    "parked-settled": "a row keeps it as not handled yet, and a final dead letter says that it was given up on",
    "settled-unaccepted": "a dead letter says that its handler failed, and it was never accepted",
    "settled-early": "it was settled while one before it still waits",
    "wrong-side": "a message type that only the other side may send was accepted and handled",
    "delayed-sent": "it was transmitted, and a row keeps it for later",
    "after-end": "it was sent after the end of its direction",
    "skip-unreported": "its sender was told that it was skipped, and no event says so",
    "decision-unreported": "somebody decided about it, and no event says who",
}
"""Faults of one number of a direction."""
SIDE_FAULTS: Mapping[str, str] = {
    "missing-on-wire": "numbers that were sent are neither on the wire nor delayed",
    "accepted-unsent": "numbers were accepted that are not on the wire",
    "accepted-unsettled": "messages were accepted, and are neither handled, nor kept as rows or dead letters",
    "settled-twice": "more messages were handled, or are kept as rows or dead letters, than were accepted",
    "sent-uncounted": "the wire has numbers beyond those its sender counts",
    "endpoint-missing": "messages were read, and the receiver knows nothing of the dialog",
    "sender-missing": "messages are on the wire, and their sender knows nothing of the dialog",
    "endpoint-untraced": "the target remembers the dialog, and nothing of it was ever on the wire",
    "endpoint-twice": "the receiving side has more than one row",
    "acknowledged-unsent": "more was acknowledged than was sent",
    "acknowledged-unaccepted": "more was acknowledged than the receiver accepted",
    "acknowledged-untold": "the sender believes acknowledgements that nobody sent",
    "letters-miscounted": "the receiver counts other dead letters than there are",
    "error-unheard": "an ERROR was read, and the receiving side goes on as if nothing had happened",
    "park-empty": "the dialog is parked, and there is no parked message",
    "parked-hole": "parked messages are missing",
    "parked-disorder": "the numbers of what is parked do not follow each other",
    "parked-astray": "messages are parked of a dialog that is not, or is over",
    "accepted-fell": "the receiver's row went back to a lower accepted number",
    "sent-fell": "the sender's row went back to a lower sent number",
    "acknowledged-fell": "the sender's row went back to a lower acknowledged number",
    "revived": "the receiving side was closed, and has an open endpoint again",
    "forgotten-early": "the receiving side was forgotten before its time",
    "group-missing": "the receiving side belongs to a group with state or other dialogs, and the group has no row",
}
"""Faults between the two sides of a direction and the wire."""
PARTITION_FAULTS: Mapping[str, str] = {
    "position-ahead": "the position of a partition is behind the end of its queue",
    "position-fell": "the position of a partition, or its log time, went back",
    "partition-missing": "there are rows of a partition, and none that says how far it was read",
    "row-broken": "rows that nobody can read",
}
"""Faults of a partition."""
FAULTS: Mapping[str, str] = {**RECORD_FAULTS, **NUMBER_FAULTS, **SIDE_FAULTS, **PARTITION_FAULTS}
