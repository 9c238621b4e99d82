"""The sums of one dialog and of the dialogs that replaced it, by the texts of its messages.

Each text that a side asked for is in exactly one place: handled by the peer, in a dead letter of either side, in the letter of a refused
command, or dropped by its sender. A letter that is uncertain says that its message may have been handled all the same.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from conversations.memory.record import MemoryRecord
from conversations.protocol import letters
from conversations.protocol.command import Send, decode_command
from conversations.protocol.envelope import Envelope, Kind, decode
from conversations.protocol.topics import DEAD_LETTER, QUEUE, service_topic
from conversations.testing.broker import FaultyBroker
from conversations.testing.reading import visible


class Places:
    """Where each text is, in the topics of both services."""

    def __init__(self, broker: FaultyBroker) -> None:
        self.handled: dict[str, list[str]] = defaultdict(list)
        """By the name of the receiver: the texts that it has handled, in order."""
        self.letters: Counter[str] = Counter()
        self.uncertain: set[str] = set()
        self.refused: set[str] = set()
        """Texts of commands that were refused."""
        self.sent: set[str] = set()
        texts: dict[tuple[bytes, bool, int], str] = {}
        for service in broker.services:
            for record in visible(broker, service_topic(broker.namespace, service, QUEUE)):
                envelope = _envelope_of(record)
                if envelope is not None and envelope.kind is Kind.MESSAGE:
                    prefix = envelope.prefix
                    texts[prefix.conversation_id, not prefix.from_initiator, envelope.seq] = text = text_of(
                        envelope.body
                    )
                    self.sent.add(text)
            for record in visible(broker, service_topic(broker.namespace, service, DEAD_LETTER)):
                self._letter(record)
        for entry in broker.ledger.handled:
            self.handled[entry.service].append(texts[entry.conversation, entry.to_initiator, entry.number])

    def _letter(self, record: MemoryRecord) -> None:
        headers, value = dict(record.headers() or ()), record.value() or b""
        if headers[letters.REASON].decode() == letters.COMMAND_REFUSED:
            self.refused |= {text_of(it.body) for it in decode_command(value).operations if isinstance(it, Send)}
            return
        if letters.SEQUENCE not in headers or letters.HELD in headers:
            return  # a copy of a held message, or no message at all
        envelope = decode(value)
        if envelope.kind is not Kind.MESSAGE:
            return
        if letters.UNCERTAIN in headers:
            self.uncertain.add(text_of(envelope.body))
        else:
            self.letters[text_of(envelope.body)] += 1


def _envelope_of(record: MemoryRecord) -> Envelope | None:
    """Return the envelope of a queue's record, None for a record that is none."""
    try:
        return decode(record.value() or b"")
    except ValueError:
        return None


def text_of(body: bytes) -> str:
    """Return the text in the body of a message."""
    text: str = json.loads(body)["text"]
    return text


def check(places: Places, asked: Iterable[str], discarded: Mapping[str, int]) -> None:
    """Check the sums after the dialog is over on both sides.

    Args:
        places: where the texts are.
        asked: the texts that commands have asked for.
        discarded: by "i" for the initiator and "t" for the target: how many envelopes the side says that it has dropped.

    Raises:
        AssertionError: a sum is wrong.
    """
    handled = Counter(text for texts in places.handled.values() for text in texts)
    nowhere: Counter[str] = Counter()
    for text in {*asked, *places.sent, *handled}:
        outcomes = handled[text] + places.letters[text] + (text in places.refused)
        if outcomes > 1:
            raise AssertionError(
                f"invariant 5 (nothing lost): {text!r} has {outcomes} outcomes: handled {handled[text]}, letters {places.letters[text]}, "
                f"refused {text in places.refused}"
            )
        if not outcomes and text not in places.uncertain:
            nowhere[text[0]] += 1
    for side, count in nowhere.items():
        if count > discarded.get(side, 0):
            raise AssertionError(
                f"invariant 5 (nothing lost): {count} messages of side {side} are nowhere, and it has dropped {discarded.get(side, 0)}"
            )
    for service, texts in places.handled.items():
        _check_order(service, texts)


def _check_order(service: str, texts: list[str]) -> None:
    """Check that the messages of commands are handled in the order of the commands, also on the dialogs that replace each other."""
    numbers = [int(name[1:]) for name in (text.split()[0] for text in texts) if "-" not in name]
    if numbers != sorted(numbers):
        raise AssertionError(f"invariant 3 (in order): {service} has handled {texts}")
