"""Faults, each planted into a separate dialog. They change topics as a product that breaks its promises would have left them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

from conversations.protocol import rows
from conversations.protocol.envelope import decode
from conversations.protocol.park_row import ParkRow, encode_park
from conversations.protocol.registry import DEFAULT
from tests.chaos.checker.records import Record
from tests.spark.support.forging import DESK, ENDPOINT, PARK, PARTITION, WEB, Dialog
from tests.spark.support.topics import Topics

FAR = 1_000_000
"""An offset that no queue of the tests reaches."""


class Plant(NamedTuple):
    """A function that plants a fault, the kind of dialog that it needs, and the faults that the audit must find there."""

    dialogs: str
    faults: frozenset[tuple[str, bool]]
    """Names of faults, each with its direction: True if it is to the target."""
    put: Callable[[Dialog], None]


PLANTS: list[Plant] = []
ELSEWHERE: list[tuple[tuple[str, ...], Callable[[Topics], None]]] = []
"""Faults that belong to no dialog: their names, and the functions that plant them."""


def plant(dialogs: str, *to_target: str, back: tuple[str, ...] = ()) -> Callable[[Callable[[Dialog], None]], None]:
    """Register a function that plants faults into one dialog of a kind. ``back`` has the faults of the direction to the initiator."""

    def register(put: Callable[[Dialog], None]) -> None:
        PLANTS.append(
            Plant(dialogs, frozenset([*((it, True) for it in to_target), *((it, False) for it in back)]), put)
        )

    return register


def elsewhere(*names: str) -> Callable[[Callable[[Topics], None]], None]:
    """Register a function that plants faults that belong to no dialog."""

    def register(put: Callable[[Topics], None]) -> None:
        ELSEWHERE.append((names, put))

    return register


# -- lost, twice, out of order ----------------------------------------------------------------------------------------------


@plant("open", "missing-on-wire", "accepted-unsent")
def a_message_is_gone_from_the_log(it: Dialog) -> None:
    it.lose(it.wire(1))


@plant("open", "missing-on-wire", "accepted-unsent")
def a_number_is_gone_and_its_sender_dropped_something_of_its_peer(it: Dialog) -> None:
    it.lose(it.wire(1))
    it.lie(initiator=True, discarded=1)


@plant("open", "missing-on-wire")
def the_sender_counts_more_than_it_sent(it: Dialog) -> None:
    it.lie(initiator=True, next_out=6)


@plant("open", "sent-uncounted")
def the_sender_counts_less_than_it_sent(it: Dialog) -> None:
    it.lie(initiator=True, next_out=2, acked=1)


@plant("ended", back=("sent-uncounted",))
def a_tombstone_counts_less_than_was_sent(it: Dialog) -> None:
    it.lie(transmitted=1)


@plant("open", "number-twice")
def a_number_has_two_contents(it: Dialog) -> None:
    it.send(it.like(it.wire(2), body=b'{"n": 7, "how": ""}'))


@plant("open", "accepted-unsent")
def the_receiver_accepted_what_nobody_sent(it: Dialog) -> None:
    it.lie(next_in=7)


@plant("ended", "accepted-unsent")
def a_tombstone_accepted_what_nobody_sent(it: Dialog) -> None:
    it.lie(accepted=7)


@plant("open", "unaccounted", "acknowledged-unaccepted", "settled-twice")
def the_receiver_accepted_less_than_it_read(it: Dialog) -> None:
    it.lie(next_in=2, told=1)


@plant("ended", "lost", "acknowledged-unaccepted")
def a_tombstone_accepted_less_than_was_read(it: Dialog) -> None:
    it.lie(accepted=0)


@plant("open", "accepted-unread")
def a_message_was_accepted_and_not_read(it: Dialog) -> None:
    record = it.wire(3)
    it.lose(record)
    it.send(record)


@plant("open", "settled-early", "settled-twice")
def a_message_was_settled_before_one_that_waits(it: Dialog) -> None:
    it.keep(b"W" + (1 << 50).to_bytes(8, "big"), it.wire(2))


@plant("hold", "accepted-unsettled", "unaccounted")
def a_whole_park_is_gone(it: Dialog) -> None:
    it.drop(it.key(b"F"))
    it.drop(it.key(b"R"))


@plant("open", "accepted-unsettled")
def fewer_were_handled_than_are_settled(it: Dialog) -> None:
    it.lie(handled=2)


@plant("open", "settled-twice")
def more_were_handled_than_were_accepted(it: Dialog) -> None:
    it.lie(handled=9)


@plant("end", "lost")
def what_was_left_to_its_sender_is_gone(it: Dialog) -> None:
    it.topics.records.remove(it.letters(initiator=True)[-1])


@plant("end", "twice")
def what_was_accepted_came_back(it: Dialog) -> None:
    it.give_back(it.wire(0))


@plant("ended", "missing-on-wire")
def a_message_was_sent_and_then_dropped(it: Dialog) -> None:
    it.lie(initiator=True, transmitted=it.end(initiator=True)[1]["transmitted"] + 1)


@plant("ended", "after-end")
def a_message_follows_the_end(it: Dialog) -> None:
    end = it.last()
    it.replace(end, it.like(it.wire(3), seq=decode(end.value or b"").seq)._replace(offset=end.offset))
    it.replace(it.wire(3), it.like(end, seq=3)._replace(offset=it.wire(3).offset))


# -- states that went back --------------------------------------------------------------------------------------------------


@plant("open", "accepted-fell")
def the_receiver_went_back(it: Dialog) -> None:
    it.turn(next_in=1)


@plant("open", "sent-fell")
def the_sender_went_back(it: Dialog) -> None:
    it.turn(initiator=True, next_out=3)


@plant("open", "acknowledged-fell")
def the_sender_forgot_acknowledgements(it: Dialog) -> None:
    it.turn(initiator=True, acked=0)


@plant("ended", "revived")
def a_closed_endpoint_lives(it: Dialog) -> None:
    _, stone = it.end()
    row = next(row for row in reversed(it.rows(it.key(b"E"))) if not rows.is_tombstone(row.value or b""))
    fields = DEFAULT.decode(row.value or b"", ENDPOINT)
    alive = fields | {"state": 4, "next_in": stone["accepted"] + 1, "next_out": stone["transmitted"] + 1}
    it.write(it.key(b"E"), ENDPOINT.encode(alive))


@plant("ended", "forgotten-early")
def a_tombstone_was_away(it: Dialog) -> None:
    row = it.rows(it.key(b"E"))[-1].value
    it.write(it.key(b"E"), None)
    it.write(it.key(b"E"), row)


# -- sides ------------------------------------------------------------------------------------------------------------------


@plant("open", "endpoint-missing", back=("sender-missing",))
def the_peer_never_got_its_messages(it: Dialog) -> None:
    it.drop(it.key(b"E"))


@plant("open", "sender-missing", back=("endpoint-missing",))
def nobody_sent_it(it: Dialog) -> None:
    it.drop(it.key(b"E", initiator=True), initiator=True)


@plant("open", "endpoint-twice")
def an_endpoint_has_two_rows(it: Dialog) -> None:
    row = it.rows(it.key(b"E"))[-1]
    it.topics.append(row.topic, (row.partition + 1) % 3, row.key, row.value)


@plant("open", "acknowledged-unsent", "acknowledged-unaccepted")
def more_is_acknowledged_than_was_sent(it: Dialog) -> None:
    record = it.wire(3, to_target=False)
    it.replace(record, it.like(record, ack=9)._replace(offset=record.offset))


@plant("delayed", "acknowledged-untold")
def an_acknowledgement_was_never_sent(it: Dialog) -> None:
    it.lie(initiator=True, acked=0)


@plant("error", back=("error-unheard",))
def an_error_was_not_heard(it: Dialog) -> None:
    row = next(
        row for row in reversed(it.rows(it.key(b"E", initiator=True), initiator=True))
        if not rows.is_tombstone(row.value or b"")
    )  # fmt: skip
    _, stone = it.end(initiator=True)
    fields = DEFAULT.decode(row.value or b"", ENDPOINT)
    counts = {
        "next_in": stone["accepted"] + 1,
        "next_out": stone["transmitted"] + 1,
        "dead_lettered": stone["dead_lettered"],
        "handled": -1,
    }
    for old in it.rows(it.key(b"E", initiator=True), initiator=True)[:-1]:
        it.topics.records.remove(old)
    last = it.rows(it.key(b"E", initiator=True), initiator=True)[-1]
    it.replace(last, last._replace(value=ENDPOINT.encode(fields | counts | {"state": 2, "missing": stone["missing"]})))


@plant("open", "wrong-side")
def a_type_of_the_other_side_was_handled(it: Dialog) -> None:
    record = it.wire(1)
    it.replace(record, it.like(record, message_type="Heard")._replace(offset=record.offset))


@plant("open", "group-missing")
def the_state_of_a_group_is_gone(it: Dialog) -> None:
    it.lie(stateful=True)


# -- rows that keep what they should not ----------------------------------------------------------------------------------


@plant("open", "held-below")
def an_accepted_message_is_held(it: Dialog) -> None:
    it.keep(rows.numbered(b"H", it.key(b"")[0:17], 1), it.wire(1))


@plant("open", "kept-unsent")
def a_row_keeps_what_was_never_sent(it: Dialog) -> None:
    it.keep(b"W" + (2 << 50).to_bytes(8, "big"), it.like(it.wire(3), seq=9))


@plant("hold", "kept-twice")
def two_rows_keep_a_message(it: Dialog) -> None:
    it.keep(b"W" + (3 << 50).to_bytes(8, "big"), it.wire(2))


@plant("hold", "kept-bytes")
def a_row_keeps_other_content(it: Dialog) -> None:
    key = rows.numbered(b"R", it.key(b"")[0:17], 1)
    it.keep(key, it.like(it.wire(2), body=b'{"n": 8}'))


@plant("open", "delayed-sent")
def a_message_was_sent_and_is_kept_for_later(it: Dialog) -> None:
    it.keep(rows.numbered(b"D", it.key(b"", initiator=True), 5), it.wire(2))


# -- parks ------------------------------------------------------------------------------------------------------------------


@plant("open", "park-empty")
def a_dialog_is_parked_without_a_message(it: Dialog) -> None:
    it.write(it.key(b"F"), encode_park(ParkRow(next=1, failure="ValueError: x")))


@plant("hold", "parked-hole", "settled-early", "accepted-unsettled")
def a_parked_message_is_missing(it: Dialog) -> None:
    it.drop(rows.numbered(b"R", it.key(b""), 1))


@plant("hold", "parked-disorder")
def parked_messages_are_out_of_order(it: Dialog) -> None:
    first, second = (it.rows(rows.numbered(b"R", it.key(b""), index))[-1] for index in (1, 2))
    it.replace(first, first._replace(value=second.value))
    it.replace(second, second._replace(value=first.value))


@plant("hold", "parked-astray")
def messages_are_parked_of_a_dialog_that_is_not(it: Dialog) -> None:
    it.drop(it.key(b"F"))


@plant("hold", "parked-settled")
def a_parked_message_is_settled(it: Dialog) -> None:
    it.letter(it.wire(1), "after-end")


# -- letters ----------------------------------------------------------------------------------------------------------------


@plant("skip", "letter-bytes")
def a_letter_has_other_bytes(it: Dialog) -> None:
    (letter,) = it.letters()
    it.replace(letter, letter._replace(value=(letter.value or b"")[:-1] + b"!"))


@plant("skip", "letter-bytes")
def a_letter_has_no_bytes(it: Dialog) -> None:
    (letter,) = it.letters()
    it.replace(letter, letter._replace(value=None))


@plant("skip", "letter-twice")
def a_letter_was_settled_twice(it: Dialog) -> None:
    (letter,) = it.letters()
    it.send(letter)


@plant("skip", "letter-mislabelled")
def a_letter_says_another_number(it: Dialog) -> None:
    (letter,) = it.letters()
    headers = tuple((name, b"2" if name == "dl.sequence" else value) for name, value in letter.headers)
    it.replace(letter, letter._replace(headers=headers))


@plant("skip", "settled-unaccepted", "lost", "acknowledged-unaccepted")
def what_failed_was_never_accepted(it: Dialog) -> None:
    it.lie(accepted=0)


@plant("ended", "letters-miscounted")
def a_tombstone_counts_letters_that_are_not_there(it: Dialog) -> None:
    it.lie(dead_lettered=2)


@plant("end", "letters-miscounted")
def a_tombstone_forgets_its_letters(it: Dialog) -> None:
    it.lie(dead_lettered=0)


@plant("open", "letter-unfounded", "settled-twice")
def a_letter_is_of_a_record_that_was_never_there(it: Dialog) -> None:
    it.letter(it.wire(2), "after-end", offset=FAR)


@plant("open", "letter-unread", "settled-twice")
def a_letter_is_of_a_record_that_was_not_read(it: Dialog) -> None:
    it.letter(it.send(it.wire(2)), "after-end")


@plant("open", "letter-row-alone")
def a_row_knows_a_letter_that_is_not_there(it: Dialog) -> None:
    record = it.wire(1)
    it.write(rows.letter_key(record.topic, record.offset), bytes(8))


@plant("end", "letter-not-open")
def no_row_knows_a_letter(it: Dialog) -> None:
    letter = it.letters()[0]
    headers = {name: value or b"" for name, value in letter.headers}
    key = rows.letter_key(headers["dl.source-topic"].decode(), int(headers["dl.source-offset"]))
    for row in it.rows(key):
        if row.partition == letter.partition:
            it.topics.records.remove(row)


@plant("open", "event-without-letter")
def an_event_tells_of_a_letter_that_is_not_there(it: Dialog) -> None:
    record = it.wire(0)
    said = {
        "event": "SET_ASIDE", "service": DESK, "partition": record.partition, "at": 1, "topic": record.topic,
        "offset": record.offset, "why": "it is said",
    }  # fmt: skip
    it.topics.append(f"{it.topics.namespace}.events", 0, b"desk", json.dumps(said).encode())


def silence(it: Dialog, event: str) -> None:
    """Remove the events with this name that are about the dialog."""
    said = [record for record in it.topics.records if record.topic == f"{it.topics.namespace}.events"]
    for record in said:
        facts = json.loads(record.value or b"")
        if facts["event"] == event and facts.get("conversation") == it.id:
            it.topics.records.remove(record)


@plant("skip open", "skip-unreported")
def nobody_reported_that_a_message_was_skipped(it: Dialog) -> None:
    silence(it, "SKIPPED_BY_PEER")


@plant("hold", "decision-unreported")
def nobody_reported_who_gave_a_message_back(it: Dialog) -> None:
    row = it.rows(it.key(b"F"))[-1]
    it.write(it.key(b"F"), PARK.encode(DEFAULT.decode(row.value or b"", PARK) | {"returned": str(uuid4())}))


# -- of no dialog -------------------------------------------------------------------------------------------------------------


@elsewhere("not-set-aside", "event-without-letter")
def a_record_was_not_set_aside(topics: Topics) -> None:
    letter = next(it for it in topics.of(DESK, "dead-letter") if it.value == b"junk")
    topics.records.remove(letter)
    offset = int(dict(letter.headers)["dl.source-offset"] or b"")
    key = rows.letter_key(f"{topics.namespace}.desk.queue", offset)
    for row in [it for it in topics.of(DESK, "state") if it.key == key and it.partition == letter.partition]:
        topics.records.remove(row)


def position(topics: Topics, **changes: Callable[[int], int]) -> tuple[Record, bytes]:
    """Return the newest row of partition 0 of ``web``, and its value with changed numbers."""
    row = [it for it in topics.of(WEB, "state") if it.key == b"P" and it.partition == 0][-1]
    fields = DEFAULT.decode(row.value or b"", PARTITION)
    return row, PARTITION.encode(fields | {name: change(fields[name]) for name, change in changes.items()})


@elsewhere("position-fell")
def a_position_went_back(topics: Topics) -> None:
    row, value = position(topics, commands=lambda it: it - 1)
    topics.append(row.topic, 0, b"P", value)
    topics.append(row.topic, 0, b"P", row.value)


@elsewhere("position-ahead")
def a_position_is_beyond_the_end(topics: Topics) -> None:
    row, value = position(topics, queue=lambda it: it + 50)
    topics.append(row.topic, 0, b"P", value)


@elsewhere("row-broken")
def a_row_is_broken(topics: Topics) -> None:
    topics.append(topics.name(WEB, "state"), 0, b"E" + uuid4().bytes + b"\1", b"nothing")


def alone(topics: Topics, dialog: str, *, initiator: bool, **said: Any) -> str:
    """Plant an endpoint that has no other rows or records; return the id of its dialog.

    Its row is a copy of an endpoint's row of ``dialog``, with no messages counted, and with the fields of ``said``.
    """
    made, it = uuid4(), Dialog(topics, dialog)
    _, fields = it.end(initiator=initiator)
    value = ENDPOINT.encode(
        fields
        | {"key": str(made), "next_in": 0, "next_out": 0, "told": -1, "acked": -1, "handled": 0, "stateful": False}
        | said
    )
    it.write(rows.ENDPOINT + rows.identity(made.bytes, initiator), value, initiator=initiator)
    return str(made)
