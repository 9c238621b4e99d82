"""Every violation the checker knows is planted into a clean run, and found by its name."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from tests.chaos.checker import avro
from tests.chaos.checker.chain import Numbered, digest_of, entry, following, receipt
from tests.chaos.checker.letters import row_of
from tests.chaos.checker.records import HandlerRun, Log
from tests.chaos.checker.verdict import Kind
from tests.unit.chaos import test_planted_fates
from tests.unit.chaos.clean_run import LEDGER, TELLER, Run, run
from tests.unit.chaos.forging import Forged, Plant, Plants

plants = Plants()


def body_of(run: Forged, dialog: str, number: int, *, of: str) -> Numbered:
    record = run.entry(dialog, number) if of == LEDGER else run.receipt(dialog, number)
    body = avro.ENVELOPE.decode(record.value or b"")["body"]
    return entry(body) if of == LEDGER else receipt(body)


def set_state(run: Forged, service: str, count: int, digest: str) -> None:
    row = run.row(service, run.group_key(run.open, service))
    run.change_row(row, avro.GROUP, state=json.dumps({"count": count, "digest": digest}).encode())


def state_after(run: Forged, service: str, messages: list[Numbered]) -> None:
    set_state(run, service, len(messages), digest_of(messages))


def entries(run: Forged) -> list[Numbered]:
    return [body_of(run, run.open, number, of=LEDGER) for number in range(run.length)]


def receipts(run: Forged, count: int) -> list[Numbered]:
    return [body_of(run, run.open, number, of=TELLER) for number in range(count)]


def add_receipt(run: Forged, number: int, n: int, digest: str) -> None:
    """The target sends one more receipt, and everybody remembers it."""
    body = json.dumps({"n": n, "digest": digest}).encode()
    run.append(run.like(run.receipt(run.open, 0), seq=number, body=body))
    state_after(run, TELLER, receipts(run, number + 1))
    run.change_row(run.row(LEDGER, run.endpoint_key(run.open, LEDGER)), avro.ENDPOINT, next_out=number + 1)
    run.change_row(run.row(TELLER, run.endpoint_key(run.open, TELLER)), avro.ENDPOINT, next_in=number + 1)


# -- lost ------------------------------------------------------------------------------------------------------------


@plants(Kind.COMMAND_LOST, Kind.HANDLER_OF_NOTHING, Kind.SENT_BY_NOBODY)
def a_command_is_gone(run: Forged) -> None:
    run.lose(run.last_command(run.open))


@plants(Kind.COMMAND_LOST)
def a_dialog_was_never_begun(run: Forged) -> None:
    run.plan = replace(run.plan, dialogs={**run.plan.dialogs, "00000000-0000-7000-8000-000000000000": 3})


@plants(Kind.COMMAND_LOST, Kind.HANDLER_OF_NOTHING, Kind.UNPLANNED_DIALOG)
def a_misrouted_command_was_not_forwarded(run: Forged) -> None:
    """What stood in the wrong partition alone was never carried out."""
    of = [r for r in run.all(run.topic(TELLER, "commands")) if r.key == run.open.encode()]
    first = of[0]
    run.remove(*[r for r in run.records if r.topic == first.topic and r.value == first.value])
    run.inject(first._replace(partition=(first.partition + 1) % 3), "misrouted")


@plants(Kind.MESSAGE_LOST, Kind.ACKNOWLEDGED_UNSENT, Kind.ENDPOINT_ROW)
def the_last_entry_was_never_transmitted(run: Forged) -> None:
    run.lose(run.entry(run.open, run.length - 1))


@plants(Kind.MESSAGE_LOST, Kind.ENDPOINT_ROW, Kind.HANDLER_OF_NOTHING, Kind.ACKNOWLEDGED_UNSENT)
def an_entry_was_accepted_and_never_handled(run: Forged) -> None:
    last = run.length - 1
    state_after(run, LEDGER, entries(run)[:last])
    run.lose(run.receipt(run.open, last))
    state_after(run, TELLER, receipts(run, last))


@plants(Kind.MESSAGE_LOST)
def a_receipt_was_accepted_and_never_handled(run: Forged) -> None:
    state_after(run, TELLER, receipts(run, run.length - 1))


@plants(Kind.SEQUENCE_GAP)
def an_entry_in_the_middle_is_gone(run: Forged) -> None:
    run.lose(run.entry(run.closed, 2))


@plants(Kind.SEQUENCE_GAP, Kind.HANDLER_OF_NOTHING, Kind.REPLY_MISSING, Kind.SENT_BY_NOBODY)
def a_receipt_in_the_middle_is_gone(run: Forged) -> None:
    run.lose(run.receipt(run.closed, 2))


@plants(Kind.REPLY_MISSING, Kind.ENDPOINT_ROW, Kind.HANDLER_OF_NOTHING, Kind.ACKNOWLEDGED_UNSENT)
def the_last_receipt_is_gone(run: Forged) -> None:
    run.lose(run.receipt(run.open, run.length - 1))


@plants(Kind.END_LOST, Kind.ACKNOWLEDGED_UNSENT, Kind.ENDPOINT_ROW, Kind.UNPLANNED_END)
def the_end_is_gone(run: Forged) -> None:
    run.lose(run.envelope(run.closed, LEDGER, run.plan.dialogs[run.closed], "END"))


@plants(Kind.LETTER_LOST, Kind.EVENT_UNFOUNDED)
def a_broken_record_was_dropped(run: Forged) -> None:
    run.forget(run.set_aside())
    run.remove(run.set_aside())


@plants(Kind.LETTER_BYTES)
def a_dead_letter_keeps_other_bytes(run: Forged) -> None:
    letter = run.set_aside()
    run.put(letter, value=(letter.value or b"")[:-1])


@plants(Kind.LETTER_BYTES)
def a_dead_letter_keeps_other_headers(run: Forged) -> None:
    letter = run.set_aside()
    run.put(letter, headers=(*letter.headers, ("dl.header.other", b"x")))


@plants(Kind.LETTER_BYTES)
def a_part_of_a_dead_letter_is_gone(run: Forged) -> None:
    letter = run.set_aside()
    run.put(letter, headers=(*letter.headers, ("dl.part", b"1/2"), ("dl.part-of", b"value"), ("dl.size", b"9")))


@plants(Kind.LETTER_BYTES, Kind.EVENT_UNFOUNDED, Kind.LETTER_LOST)
def a_dead_letter_does_not_say_where_it_is_from(run: Forged) -> None:
    run.forget(run.set_aside())
    run.put(run.set_aside(), headers=())


# -- twice -----------------------------------------------------------------------------------------------------------


@plants(Kind.SENT_TWICE)
def an_entry_was_transmitted_twice(run: Forged) -> None:
    run.append(run.entry(run.open, 1))


@plants(Kind.SENT_TWICE)
def the_end_was_transmitted_twice(run: Forged) -> None:
    run.append(run.envelope(run.closed, LEDGER, run.plan.dialogs[run.closed], "END"))


@plants(Kind.SENT_TWICE, Kind.EVENT_MISSING, Kind.LETTER_TWICE)
def what_was_aborted_counts(run: Forged) -> None:
    """A reader that shows records of aborted transactions shows most of them a second time."""
    run.records += [record for record in run.aborted if record.topic.endswith(".queue")]


@plants(Kind.NUMBER_TWICE)
def two_entries_have_one_number(run: Forged) -> None:
    run.append(run.like(run.entry(run.open, 1), body=b'{"n":1,"pad":"another"}'))


@plants(Kind.HANDLED_TWICE)
def an_entry_was_handled_twice(run: Forged) -> None:
    told = entries(run)
    again = [*told, told[-1]]
    state_after(run, LEDGER, again)
    add_receipt(run, run.length, told[-1].n, digest_of(again))


@plants(Kind.HANDLED_TWICE)
def a_receipt_was_handled_twice(run: Forged) -> None:
    told = receipts(run, run.length)
    state_after(run, TELLER, [*told, told[-1]])


@plants(Kind.REPLY_TWICE)
def an_entry_was_answered_twice(run: Forged) -> None:
    add_receipt(run, run.length, run.length - 1, digest_of(entries(run)))


@plants(Kind.LETTER_TWICE)
def a_dead_letter_was_written_twice(run: Forged) -> None:
    run.append(run.set_aside())


@plants(Kind.LETTER_OF_HANDLED, Kind.ENDPOINT_ROW, Kind.GAVE_UP, Kind.SUM)
def a_handled_entry_became_a_dead_letter(run: Forged) -> None:
    run.letter_of(run.entry(run.open, 1), "handler-failed", run.open, 1)


@plants(Kind.ROW_REVIVED, Kind.TOMBSTONE_MISSING)
def an_endpoint_came_back_after_its_tombstone(run: Forged) -> None:
    key = run.endpoint_key(run.closed, LEDGER)
    tombstone = run.row(LEDGER, key)
    alive = next(r for r in run.all(tombstone.topic) if r.key == key)
    run.next_row(LEDGER, tombstone.partition, key, alive.value)


@plants(Kind.ROW_REVIVED, Kind.WRONG_PARTITION)
def an_endpoint_has_rows_in_two_partitions(run: Forged) -> None:
    row = run.row(LEDGER, run.endpoint_key(run.open, LEDGER))
    run.next_row(LEDGER, (row.partition + 1) % 3, row.key or b"", row.value)


# -- out of order ----------------------------------------------------------------------------------------------------


@plants(Kind.OUT_OF_ORDER)
def two_entries_changed_places_on_the_wire(run: Forged) -> None:
    one, other = run.entry(run.closed, 1), run.entry(run.closed, 2)
    run.put(one, value=other.value, headers=other.headers)
    run.put(other, value=one.value, headers=one.headers)


@plants(Kind.OUT_OF_ORDER, Kind.STATE_DIGEST)
def two_entries_were_handled_in_the_wrong_order(run: Forged) -> None:
    """Everything of the target agrees with it: only the receipts tell."""
    told = entries(run)
    told[1], told[2] = told[2], told[1]
    state_after(run, LEDGER, told)
    digest = ""
    for number, message in enumerate(told):
        digest = following(digest, message)
        body = json.dumps({"n": message.n, "digest": digest}).encode()
        record = run.receipt(run.open, number)
        changed = run.like(record, body=body)
        run.put(record, value=changed.value)
    state_after(run, TELLER, receipts(run, run.length))


@plants(Kind.OUT_OF_ORDER)
def the_end_overtook_an_entry(run: Forged) -> None:
    length = run.plan.dialogs[run.closed]
    end, last = run.envelope(run.closed, LEDGER, length, "END"), run.entry(run.closed, length - 1)
    run.put(end, value=last.value, headers=last.headers)
    run.put(last, value=end.value, headers=end.headers)


@plants(Kind.HANDLER_ORDER)
def a_process_went_back_to_what_it_had_never_handled(run: Forged) -> None:
    at = [i for i, note in enumerate(run.notes) if (note.conversation, note.initiator) == (run.open, False)]
    firsts = [next(i for i in at if run.notes[i].n == n) for n in (3, 4)]
    kept = [note for i, note in enumerate(run.notes) if i not in at or note.n not in {3, 4}]
    run.notes = [*kept[: firsts[0]], HandlerRun(run.open, False, 4), HandlerRun(run.open, False, 3), *kept[firsts[0] :]]


# -- state -----------------------------------------------------------------------------------------------------------


@plants(Kind.STATE_COUNT)
def the_count_is_off(run: Forged) -> None:
    set_state(run, LEDGER, run.length + 1, digest_of(entries(run)))


@plants(Kind.STATE_DIGEST)
def the_digest_is_off(run: Forged) -> None:
    set_state(run, LEDGER, run.length, "0" * 64)


@plants(Kind.STATE_DIGEST)
def a_receipt_has_another_digest(run: Forged) -> None:
    """The initiator believed it."""
    record = run.receipt(run.open, 1)
    run.put(record, value=run.like(record, body=b'{"n":1,"digest":"0"}').value)
    state_after(run, TELLER, receipts(run, run.length))


@plants(Kind.STATE_MISSING)
def the_state_is_gone(run: Forged) -> None:
    key = run.group_key(run.open, TELLER)
    run.remove(*[r for r in run.all(run.topic(TELLER, "state")) if r.key == key])


@plants(Kind.ENDPOINT_ROW)
def the_row_says_that_more_was_accepted(run: Forged) -> None:
    row = run.row(LEDGER, run.endpoint_key(run.open, LEDGER))
    run.change_row(row, avro.ENDPOINT, next_in=run.length + 1)


@plants(Kind.ENDPOINT_ROW)
def the_row_says_that_more_was_sent(run: Forged) -> None:
    row = run.row(TELLER, run.endpoint_key(run.open, TELLER))
    run.change_row(row, avro.ENDPOINT, next_out=run.length + 1)


@plants(Kind.ENDPOINT_ROW)
def the_row_believes_in_an_acknowledgement_nobody_gave(run: Forged) -> None:
    row = run.row(LEDGER, run.endpoint_key(run.open, LEDGER))
    fields = avro.ENDPOINT.decode(row.value or b"")
    run.change_row(row, avro.ENDPOINT, acked=fields["acked"] - 1)


@plants(Kind.ENDPOINT_ROW)
def the_row_has_another_state(run: Forged) -> None:
    row = run.row(TELLER, run.endpoint_key(run.open, TELLER))
    run.change_row(row, avro.ENDPOINT, state=3)


@plants(Kind.ENDPOINT_ROW)
def the_tombstone_says_that_less_was_accepted(run: Forged) -> None:
    row = run.row(LEDGER, run.endpoint_key(run.closed, LEDGER))
    run.change_row(row, avro.TOMBSTONE, accepted=3)


@plants(Kind.ENDPOINT_ROW)
def the_tombstone_counts_what_nobody_gave_up_on(run: Forged) -> None:
    row = run.row(TELLER, run.endpoint_key(run.closed, TELLER))
    run.change_row(row, avro.TOMBSTONE, dead_lettered=1)


@plants(Kind.ENDPOINT_MISSING)
def the_row_is_gone(run: Forged) -> None:
    key = run.endpoint_key(run.open, LEDGER)
    run.remove(*[r for r in run.all(run.topic(LEDGER, "state")) if r.key == key])


@plants(Kind.TOMBSTONE_MISSING)
def an_ended_dialog_left_nothing(run: Forged) -> None:
    key = run.endpoint_key(run.closed, TELLER)
    run.remove(*[r for r in run.all(run.topic(TELLER, "state")) if r.key == key])


@plants(Kind.TOMBSTONE_MISSING)
def an_ended_dialog_is_open_on_one_side(run: Forged) -> None:
    run.remove(run.row(LEDGER, run.endpoint_key(run.closed, LEDGER)))


@plants(Kind.TOMBSTONE_EARLY, Kind.TOMBSTONE_MISSING)
def a_tombstone_was_forgotten_before_its_time(run: Forged) -> None:
    row = run.row(LEDGER, run.endpoint_key(run.closed, LEDGER))
    run.next_row(LEDGER, row.partition, row.key or b"", None)
    run.next_row(LEDGER, row.partition, b"P", run.row(LEDGER, b"P", row.partition).value)


@plants(Kind.TOMBSTONE_MISSING)
def a_tombstone_was_forgotten_too_early_in_a_log_without_its_past(run: Forged) -> None:
    """After compaction nothing shows when a row went: the clock of the log says whether it may have."""
    key = run.endpoint_key(run.closed, LEDGER)
    row = run.row(LEDGER, key)
    run.remove(*[r for r in run.all(row.topic) if r.key == key])
    run.next_row(LEDGER, row.partition, key, None)


@plants(Kind.PARTITION_AHEAD)
def the_position_of_a_queue_is_beyond_its_end(run: Forged) -> None:
    place = run.topic(LEDGER, "queue"), 0
    run.change_row(run.row(LEDGER, b"P", 0), avro.PARTITION, queue=run.ends[place] + 1)


@plants(Kind.PARTITION_BEHIND)
def the_last_record_of_a_queue_was_not_read(run: Forged) -> None:
    place = run.topic(LEDGER, "queue"), 0
    last = max(r.offset for r in run.records if (r.topic, r.partition) == place)
    run.change_row(run.row(LEDGER, b"P", 0), avro.PARTITION, queue=last)


@plants(Kind.PARTITION_BEHIND)
def the_last_command_was_not_read(run: Forged) -> None:
    run.change_row(run.row(TELLER, b"P", 1), avro.PARTITION, commands=1)


@plants(Kind.PARTITION_MISSING)
def a_partition_has_no_row(run: Forged) -> None:
    rows = [r for r in run.all(run.topic(TELLER, "state")) if (r.key, r.partition) == (b"P", 1)]
    run.remove(*rows)


@plants(Kind.LOG_TIME)
def log_time_stands_before_the_last_record(run: Forged) -> None:
    run.change_row(run.row(LEDGER, b"P", 0), avro.PARTITION, queue_time=1)


@plants(Kind.LOG_TIME)
def log_time_runs_ahead(run: Forged) -> None:
    row = run.row(LEDGER, b"P", 0)
    time = avro.PARTITION.decode(row.value or b"")["queue_time"]
    run.change_row(row, avro.PARTITION, queue_time=time + 2 * 86_400_000_000)


@plants(Kind.COMMAND_ROW)
def a_command_is_not_remembered(run: Forged) -> None:
    row = next(r for r in run.all(run.topic(TELLER, "state")) if (r.key or b"")[:1] == b"K")
    run.remove(*[r for r in run.all(row.topic) if r.key == row.key])


@plants(Kind.ROW_BROKEN, Kind.ENDPOINT_MISSING)
def a_row_is_cut_off(run: Forged) -> None:
    row = run.row(TELLER, run.endpoint_key(run.open, TELLER))
    run.put(row, value=(row.value or b"")[:-1])


# -- unaccounted -----------------------------------------------------------------------------------------------------


@plants(Kind.WAITING_LEFT, Kind.SUM)
def an_entry_still_waits(run: Forged) -> None:
    record = run.entry(run.open, 1)
    value = avro.WAITING.encode({
        "topic": record.topic, "offset": record.offset, "log_time": 0, "accepted": True, "attempts": 0,
        "key": record.key, "header": b"", "value": record.value,
    })  # fmt: skip
    run.next_row(LEDGER, record.partition, b"W" + (1 << 40).to_bytes(8, "big"), value)


@plants(Kind.SUM, Kind.WAITING_LEFT)
def a_handled_entry_is_kept_to_be_handled_again(run: Forged) -> None:
    an_entry_still_waits(run)


@plants(Kind.WRONG_PARTITION)
def a_row_is_in_another_partition(run: Forged) -> None:
    """It is found there, and its state with it: only the key tells."""
    for key in (run.endpoint_key(run.open, LEDGER), run.group_key(run.open, LEDGER)):
        rows = [r for r in run.all(run.topic(LEDGER, "state")) if r.key == key]
        run.remove(*rows)
        run.next_row(LEDGER, (rows[-1].partition + 1) % 3, key, rows[-1].value)


@plants(Kind.WRONG_PARTITION)
def a_command_nobody_misrouted_is_in_another_partition(run: Forged) -> None:
    command = next(r for r in run.all(run.topic(TELLER, "commands")) if r.key == run.open.encode())
    run.append(command._replace(partition=(command.partition + 1) % 3))


@plants(Kind.UNBELIEVABLE, Kind.LETTER_LOST)
def an_envelope_is_in_another_partition(run: Forged) -> None:
    record = run.entry(run.open, run.length - 1)
    run.append(record._replace(partition=(record.partition + 1) % 3))


@plants(Kind.WRONG_BYTES)
def an_entry_has_another_body(run: Forged) -> None:
    record = run.entry(run.open, 1)
    run.put(record, value=run.like(record, body=b'{"n":1,"pad":"another"}').value)


@plants(Kind.SENT_BY_NOBODY, Kind.ENDPOINT_ROW)
def an_entry_nobody_asked_for_is_on_the_wire(run: Forged) -> None:
    run.append(run.like(run.entry(run.open, 0), seq=run.length))


@plants(Kind.SENT_BY_NOBODY, Kind.HANDLER_MISSING)
def a_receipt_is_for_an_entry_nobody_sent(run: Forged) -> None:
    add_receipt(run, run.length, run.length, "")


@plants(Kind.UNPLANNED_DIALOG)
def a_dialog_nobody_planned_was_begun(run: Forged) -> None:
    run.plan = replace(run.plan, dialogs={name: n for name, n in run.plan.dialogs.items() if name != run.open})


@plants(Kind.UNPLANNED_DIALOG)
def a_dialog_nobody_began_is_on_the_wire(run: Forged) -> None:
    key = b"00000000-0000-7000-8000-000000000000"
    strange = run.like(run.entry(run.open, 0), conversation_id=bytes(16))
    run.append(strange._replace(key=key, partition=next(iter(run.ends))[1]))


@plants(Kind.UNPLANNED_END)
def a_dialog_ended_that_was_to_stay(run: Forged) -> None:
    run.plan = replace(run.plan, ends=run.plan.ends - {run.closed})


@plants(Kind.BROKEN_DIALOG)
def a_dialog_was_broken(run: Forged) -> None:
    run.append(run.like(run.receipt(run.open, 0), kind="ERROR", seq=-1, code=-8462, body=b"", message_type=""))


@plants(Kind.LETTER_UNFOUNDED, Kind.EVENT_MISSING, Kind.SEQUENCE_GAP, Kind.SENT_BY_NOBODY)
def a_good_record_was_set_aside(run: Forged) -> None:
    run.letter_of(run.entry(run.open, 1), "set-aside")


@plants(Kind.LETTER_UNFOUNDED, Kind.EVENT_MISSING)
def a_duplicate_was_set_aside(run: Forged) -> None:
    run.letter_of(run.inject(run.entry(run.open, 1), "duplicates"), "set-aside")


@plants(Kind.LETTER_UNFOUNDED, Kind.GAVE_UP)
def a_dead_letter_keeps_what_never_was(run: Forged) -> None:
    run.letter_of(run.entry(run.open, 1)._replace(offset=99_999), "handler-failed")


@plants(Kind.LETTER_NOT_OPEN)
def an_open_letter_was_forgotten(run: Forged) -> None:
    run.forget(run.set_aside())


@plants(Kind.LETTER_ROW)
def a_row_says_that_a_letter_is_open_that_nobody_wrote(run: Forged) -> None:
    run.next_row(LEDGER, 0, row_of((run.topic(LEDGER, "queue"), 0, 99_999)), bytes(8))


@plants(Kind.QUEUE_OFF)
def a_queue_was_left_off(run: Forged) -> None:
    run.change_row(run.row(LEDGER, b"P", 1), avro.PARTITION, off="policy")


@plants(Kind.EVENT_MISSING)
def a_record_was_set_aside_in_silence(run: Forged) -> None:
    run.remove(next(r for r in run.records if r.topic.endswith(".events")))


@plants(Kind.EVENT_UNFOUNDED)
def an_event_tells_of_what_did_not_happen(run: Forged) -> None:
    event = next(r for r in run.records if r.topic.endswith(".events"))
    fields = json.loads(event.value or b"") | {"offset": 99_999}
    run.append(event._replace(value=json.dumps(fields).encode()))


@plants(Kind.GAVE_UP, Kind.ACKNOWLEDGED_UNSENT, Kind.ENDPOINT_ROW)
def an_entry_was_given_up_on(run: Forged) -> None:
    """Nothing is lost of it, but nobody wanted it to fail."""
    last = run.length - 1
    run.letter_of(run.entry(run.open, last), "handler-failed", run.open, last)
    run.lose(run.receipt(run.open, last))
    run.notes = [note for note in run.notes if note != (run.open, True, last)]
    state_after(run, LEDGER, entries(run)[:last])
    state_after(run, TELLER, receipts(run, last))
    run.change_row(run.row(LEDGER, run.endpoint_key(run.open, LEDGER)), avro.ENDPOINT, next_out=last, dead_lettered=1)
    run.change_row(
        run.row(TELLER, run.endpoint_key(run.open, TELLER)),
        avro.ENDPOINT,
        next_in=last,
        acked=run.acknowledged(run.open, TELLER),
    )


@plants(Kind.COMMAND_REFUSED, Kind.COMMAND_LOST, Kind.HANDLER_OF_NOTHING, Kind.SENT_BY_NOBODY)
def a_command_was_refused(run: Forged) -> None:
    run.letter_of(run.last_command(run.open), "command-refused", run.open)


@plants(Kind.ACKNOWLEDGED_UNSENT, Kind.ENDPOINT_ROW)
def an_envelope_acknowledges_what_was_never_sent(run: Forged) -> None:
    record = run.receipt(run.open, 1)
    run.put(record, value=run.like(record, ack=run.length).value)


@plants(Kind.HANDLER_MISSING)
def no_handler_ran_for_an_entry(run: Forged) -> None:
    run.notes = [note for note in run.notes if note != (run.open, False, 1)]


@plants(Kind.HANDLER_MISSING)
def no_handler_ran_for_a_receipt(run: Forged) -> None:
    run.notes = [note for note in run.notes if note != (run.open, True, 1)]


@plants(Kind.HANDLER_OF_NOTHING)
def a_handler_ran_for_an_entry_nobody_sent(run: Forged) -> None:
    run.notes.append(HandlerRun(run.open, False, run.length))


@plants(Kind.OPEN_TRANSACTION)
def a_transaction_is_open(run: Forged) -> None:
    place = run.topic(LEDGER, "queue"), 0
    run.stable[place] = run.ends[place] - 1


def in_parts(run: Forged) -> None:
    """A letter as the product writes it for a record that is too large for one."""
    letter = run.set_aside()
    value = letter.value or b""
    for number, part in enumerate((value[:9], value[9:]), 1):
        place = ("dl.part", b"%d/2" % number), ("dl.part-of", b"value"), ("dl.size", b"%d" % len(value))
        run.append(letter._replace(value=part, headers=(*letter.headers, *place)))
    run.remove(letter)


@plants(Kind.WAITING_LEFT)
def what_is_acknowledged_is_kept(run: Forged) -> None:
    run.keep_sent(run.open, 0, 1)


@plants(Kind.ENDPOINT_ROW)
def what_is_not_acknowledged_is_not_kept(run: Forged) -> None:
    row = run.row(TELLER, run.endpoint_key(run.open, TELLER))
    run.change_row(row, avro.ENDPOINT, acked=run.length - 2)


ABORTED = 10
"""Fewer envelopes may all be receipts, which a run may have twice."""


# -- found -----------------------------------------------------------------------------------------------------------


@cache
def clean() -> Run:
    """A run in which transactions with some envelopes were aborted."""
    runs = (run(seed) for seed in range(11, 100))
    return next(found for found in runs if sum(record.topic.endswith(".queue") for record in found.aborted) >= ABORTED)


def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert Forged(clean()).verdict(Log).lines()[1:] == []


def test_a_dead_letter_in_parts_is_one_with_the_bytes_of_all() -> None:
    forged = Forged(clean())
    in_parts(forged)
    assert forged.verdict(Log).lines()[1:] == []


def test_a_tick_that_a_worker_asked_for_when_it_stopped_may_be_left() -> None:
    forged = Forged(clean())
    command = forged.last_command(forged.open)
    fields = avro.COMMAND.decode(command.value or b"")
    tick = {**fields, "operations": [("conversations.Tick", {})], "idempotency_key": ""}
    left = forged.append(command._replace(value=avro.COMMAND.encode(tick)))
    forged.change_row(forged.row(TELLER, b"P", left.partition), avro.PARTITION, commands=left.offset)
    assert forged.verdict(Log).lines()[1:] == []


@pytest.mark.parametrize(("plant", "kind", "following"), plants, ids=[plant.__name__ for plant, _, _ in plants])
def test_a_planted_fault_is_found_by_its_name(plant: Plant, kind: Kind, following: set[Kind]) -> None:
    """By this name, and by no others than those of what may follow from it."""
    forged = Forged(clean())
    plant(forged)
    verdict = forged.verdict(Log)
    assert kind in verdict.kinds(), verdict.lines()
    assert verdict.kinds() <= {kind} | following, verdict.lines()
    assert verdict.count(kind.heading) > 0


def test_every_violation_of_topics_has_been_planted() -> None:
    """A check that was never seen to fail is none. Notes that are broken are planted in ``test_files``, copies in ``test_copies``."""
    planted = {kind for _, kind, _ in plants} | {kind for _, kind, _ in test_planted_fates.plants}
    assert planted == set(Kind) - {Kind.NOTE_BROKEN, Kind.COPY_LACKS, Kind.COPY_TWICE, Kind.COPY_INVENTS}
