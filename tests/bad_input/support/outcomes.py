"""The expected outcome of each bad record that a test wrote into the shop's queue."""

from dataclasses import dataclass

from conversations.protocol.command import Begin, Send
from conversations.protocol.envelope import Kind
from tests.bad_input.support.forging import Forged, Known
from tests.bad_input.support.logs import Letter, Place
from tests.bad_input.wire import Wire


@dataclass
class Thrown:
    """One row of the table whose record was written."""

    row: Wire
    known: Known
    record: Forged
    offset: int


def begin(known: Known) -> Forged:
    """Return the command with which ``web`` begins the dialog and sends order 0."""
    return known.command(Begin("shop", known.prefix.contract), Send("Order", "application/json", b'{"n": 0}'))


def order(known: Known, number: int) -> Forged:
    """Return the command with which ``web`` sends another order."""
    return known.command(Send("Order", "application/json", b'{"n": %d}' % number))


def problems(place: Place, thrown: list[Thrown]) -> list[str]:
    """Compare the outcome of each record with its row. Return a line for each difference; an empty list if there is none."""
    letters = place.letters("shop")
    aside = {(event["topic"].rsplit(".", 1)[1], event["offset"]) for event in place.events("SET_ASIDE")}
    events = {event: len(place.events(event)) for event in {t.row.event for t in thrown} if event}
    told = [(e.prefix.conversation_id, e.code) for e in place.sent("web") if e.kind is Kind.ERROR]
    found = []
    for one in thrown:
        source = "queue", one.offset
        found += [f"{one.row.what}: {what}" for what in _of_letter(one, letters.get(source, []))]
        if one.row.event == "SET_ASIDE" and source not in aside:
            found.append(f"{one.row.what}: no event says that it was set aside")
        if one.row.event and not events[one.row.event]:
            found.append(f"{one.row.what}: no event {one.row.event}")
        codes = [code for conversation, code in told if conversation == one.known.prefix.conversation_id]
        expected = [one.row.code] if one.row.code and one.row.event != "UNANSWERABLE" else []
        if codes != expected:
            found.append(f"{one.row.what}: the peer was told {codes}, not {expected}")
    return found


def _of_letter(one: Thrown, letters: list[Letter]) -> list[str]:
    row = one.row
    if len(letters) != (1 if row.reason else 0):
        return [f"{len(letters)} dead letters"]
    if not letters:
        return []
    letter = letters[0]
    found = []
    if (letter.reason, letter.code) != (row.reason, row.code):
        found.append(f"the letter says {letter.reason} {letter.code}")
    if letter.value != (one.record.value if one.record.value is not None or letter.parts == 1 else b""):
        found.append("the letter has other bytes")
    if letter.key != one.record.key:
        found.append("the letter has another key")
    return found
