"""A run in which entries fail, and something else becomes of them than their policy says: found by its name."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.chaos.checker import avro
from tests.chaos.checker.fates import DISABLE, EDIT, END, HOLD, RETRY, SKIP
from tests.chaos.checker.records import Log, Record
from tests.chaos.checker.verdict import Kind
from tests.unit.chaos.clean_run import LEDGER, SICK, TELLER, Run, run
from tests.unit.chaos.forging import Forged, Plant, Plants

plants = Plants()


def letters_of(run: Forged, dialog: str, reason: str) -> list[Record]:
    return [record for record in run.letters(reason) if dict(record.headers)["dl.conversation"] == dialog.encode()]


@plants(Kind.OTHER_FATE, Kind.NOT_TOLD)
def an_entry_was_given_up_on_that_had_attempts_left(run: Forged) -> None:
    dialog, fate = run.sick(SKIP)
    run.other_fate(dialog, attempts=fate.attempts + 2)


@plants(Kind.OTHER_FATE, Kind.NOT_TOLD)
def an_entry_was_handled_that_its_policy_skips(run: Forged) -> None:
    dialog = next(name for name, fate in run.plan.fates.items() if not fate.given_up)
    run.other_fate(dialog, fails=9)


@plants(Kind.OTHER_FATE)
def an_entry_failed_in_silence(run: Forged) -> None:
    """Handled in the end, but no operator could have known that it waited."""
    dialog, _ = run.sick(HOLD, RETRY)
    run.remove(letters_of(run, dialog, "handler-failed")[0])


@plants(Kind.LETTER_BYTES)
def the_letter_of_an_edited_entry_keeps_the_new_bytes(run: Forged) -> None:
    dialog, fate = run.sick(HOLD, EDIT)
    (letter,) = letters_of(run, dialog, "edited")
    run.put(letter, value=run.like(run.entry(dialog, fate.n), body=b"{}").value)


@plants(Kind.STATE_DIGEST)
def an_edited_entry_was_handled_with_its_old_text(run: Forged) -> None:
    dialog, _ = run.sick(HOLD, EDIT)
    run.other_fate(dialog, text="what the client said")


@plants(Kind.OTHER_FATE, Kind.NOT_TOLD)
def a_queue_that_went_off_lost_nothing_but_its_policy_skips(run: Forged) -> None:
    dialog, _ = run.sick(DISABLE)
    run.other_fate(dialog, then=SKIP)


@plants(Kind.NOT_TOLD, Kind.ENDPOINT_ROW)
def a_sender_was_not_told_what_was_skipped(run: Forged) -> None:
    dialog, _ = run.sick(SKIP)
    told = [r for r in run.all(run.topic(TELLER, "queue")) if r.value and avro.ENVELOPE.decode(r.value)["skipped"]]
    run.remove(*[r for r in told if r.key == dialog.encode()])


@plants(Kind.GAVE_UP)
def an_entry_behind_a_skipped_one_has_a_letter_too(run: Forged) -> None:
    dialog, fate = run.sick(HOLD, SKIP)
    letter = letters_of(run, dialog, "handler-failed")[0]
    other = run.entry(dialog, fate.n + 1)
    run.append(letter._replace(
        key=other.key, value=other.value, headers=tuple(
            (name, {"dl.sequence": b"%d" % (fate.n + 1), "dl.source-offset": b"%d" % other.offset}.get(name, value))
            for name, value in letter.headers
        ),
    ))  # fmt: skip


@plants(Kind.MESSAGE_LOST, Kind.SUM, Kind.ENDPOINT_ROW)
def what_waited_behind_an_entry_that_ended_its_dialog_was_dropped(run: Forged) -> None:
    dialog, _ = run.sick(END)
    letter = letters_of(run, dialog, "parked-at-end")[-1]
    run.forget(letter)
    run.remove(letter)


@plants(Kind.OTHER_FATE, Kind.ACKNOWLEDGED_UNSENT, Kind.ENDPOINT_ROW)
def a_dialog_ended_and_nobody_was_told(run: Forged) -> None:
    dialog, _ = run.sick(END)
    queue = [r for r in run.all(run.topic(TELLER, "queue")) if r.key == dialog.encode() and r.value]
    run.remove(*[r for r in queue if avro.ENVELOPE.decode(r.value or b"")["kind"] == "ERROR"])


@plants(Kind.ENDPOINT_ROW)
def a_dialog_ended_with_another_error_than_its_policy_has(run: Forged) -> None:
    dialog, _ = run.sick(HOLD, "end")
    run.change_row(run.row(TELLER, run.endpoint_key(dialog, TELLER)), avro.TOMBSTONE, code=500)


@plants(Kind.LETTER_TWICE, Kind.GAVE_UP)
def what_came_after_the_end_has_two_letters(run: Forged) -> None:
    dialog, _ = run.sick(END)
    run.append(letters_of(run, dialog, "parked-at-end")[0])


@plants(Kind.LETTER_OF_HANDLED, Kind.GAVE_UP, Kind.ENDPOINT_ROW, Kind.SUM)
def what_was_handled_came_back(run: Forged) -> None:
    dialog, _ = run.sick(END)
    run.give_back(run.entry(dialog, 0), dialog, 0)


@plants(Kind.LETTER_BYTES, Kind.GAVE_UP, Kind.ENDPOINT_ROW)
def what_came_back_has_other_bytes(run: Forged) -> None:
    dialog, _ = run.sick(END)
    run.give_back(run.entry(dialog, 0), dialog, 0, uncertain=True, body=b"{}")


@plants(Kind.LETTER_TWICE, Kind.GAVE_UP, Kind.ENDPOINT_ROW)
def what_may_have_been_handled_came_back_twice(run: Forged) -> None:
    dialog, _ = run.sick(END)
    for _ in range(2):
        run.give_back(run.entry(dialog, 0), dialog, 0, uncertain=True)


@plants(Kind.ENDPOINT_ROW)
def a_tombstone_says_that_something_came_back(run: Forged) -> None:
    dialog, _ = run.sick(END)
    run.change_row(run.row(TELLER, run.endpoint_key(dialog, TELLER)), avro.TOMBSTONE, returned=1)


@plants(Kind.WAITING_LEFT)
def a_closed_dialog_keeps_what_it_sent(run: Forged) -> None:
    dialog, _ = run.sick(END)
    run.keep_sent(dialog, 0, 2)


@plants(Kind.OTHER_FATE)
def a_queue_was_to_go_off_and_nobody_said_that_it_did(run: Forged) -> None:
    dialog, _ = run.sick(DISABLE)
    events = [r for r in run.records if r.topic.endswith(".events") and dialog.encode() in (r.value or b"")]
    run.remove(next(r for r in events if b"GAVE_UP" in (r.value or b"")))


@plants(
    Kind.OTHER_FATE, Kind.SENT_BY_NOBODY, Kind.STATE_DIGEST, Kind.LETTER_OF_HANDLED, Kind.SUM, Kind.HANDLER_MISSING,
    Kind.HANDLER_OF_NOTHING, Kind.MESSAGE_LOST, Kind.HANDLED_TWICE,
)  # fmt: skip
def a_dialog_went_on_after_an_entry_had_ended_it(run: Forged) -> None:
    dialog, fate = run.sick(END)
    last = run.receipt(dialog, fate.n - 1)
    body = json.dumps({"n": fate.n + 1, "digest": "x"}).encode()
    run.put(last, value=run.like(last, body=body).value)


@plants(Kind.GAVE_UP)
def a_letter_without_a_number_stands_in_a_dialog_with_a_fate(run: Forged) -> None:
    dialog, fate = run.sick(SKIP)
    run.letter_of(run.entry(dialog, fate.n + 1), "handler-failed", dialog, -1)


@plants(Kind.ENDPOINT_ROW)
def a_tombstone_says_that_less_was_accepted_than_acknowledged(run: Forged) -> None:
    dialog, _ = run.sick(END)
    run.change_row(run.row(TELLER, run.endpoint_key(dialog, TELLER)), avro.TOMBSTONE, accepted=-1)


@plants(Kind.ENDPOINT_ROW)
def a_tombstone_says_that_less_was_transmitted_than_was(run: Forged) -> None:
    dialog, _ = run.sick(END)
    run.change_row(run.row(LEDGER, run.endpoint_key(dialog, LEDGER)), avro.TOMBSTONE, transmitted=0)


@plants(Kind.QUEUE_OFF)
def the_queue_was_never_turned_on_again(run: Forged) -> None:
    run.change_row(run.row(LEDGER, b"P", 0), avro.PARTITION, off="policy")


@cache
def sick() -> Run:
    """A run in which each policy gave up on something, and parked followers were left when a dialog ended."""
    runs = (run(seed, sick=SICK) for seed in range(3, 100))
    return next(found for found in runs if left_behind(Forged(found)))


def left_behind(run: Forged) -> list[Record]:
    """Letters of what waited behind the entry with which a policy ended its dialog."""
    return letters_of(run, run.sick(END)[0], "parked-at-end")


def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert Forged(sick()).verdict(Log).lines()[1:] == []


@pytest.mark.parametrize(("plant", "kind", "following"), plants, ids=[plant.__name__ for plant, _, _ in plants])
def test_a_planted_fate_is_found_by_its_name(plant: Plant, kind: Kind, following: set[Kind]) -> None:
    """By this name, and by no others than those of what may follow from it."""
    forged = Forged(sick())
    plant(forged)
    verdict = forged.verdict(Log)
    assert kind in verdict.kinds(), verdict.lines()
    assert verdict.kinds() <= {kind} | following, verdict.lines()
