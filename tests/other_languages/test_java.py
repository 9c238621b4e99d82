"""Programs in Java, written from docs/other-languages.md, hold dialogs with services in Python."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.new_ids import draw
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.sequencing import NONE
from tests.acceptance.services import counting
from tests.acceptance.support.command_line import Running
from tests.other_languages.java_programs import Programs, RunningService
from tests.other_languages.wire import create, envelopes, letters, throw, values
from tests.support.waiting import until

DIALOGS = int(os.environ.get("JAVA_DIALOGS", "40"))
"""Dialogs of the first two tests."""
LENGTH = 20
"""Numbers per dialog."""
PARTITIONS = 4
PATIENCE = 90 + DIALOGS / 5
"""Seconds to wait for all dialogs."""
pytestmark = [pytest.mark.kafka, pytest.mark.acceptance, pytest.mark.timeout(200 + DIALOGS)]
SINK = ServiceDeclaration("sink", accepts={"Counting": {"initiator": ["Number", "Total"], "target": ["Echo"]}})
"""The service in Java."""
SECOND = 1_000_000
HOUR = 3_600 * SECOND


def lines(out: Path, name: str) -> list[list[str]]:
    path = out / name
    return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


# -- a client in Java ------------------------------------------------------------------------------------------------


def test_a_client_in_java_begins_dialogs_that_workers_in_python_carry_out(
    kafka: Kafka, programs: Programs, tmp_path: Path
) -> None:
    """Every dialog is counted to its end. A command that was appended twice had no second effect."""
    apply(kafka, [counting.source.declaration(), counting.sink.declaration()], PARTITIONS, 1)
    with Running(kafka, tmp_path, "counting:source", "counting:sink") as running:
        running.ready()
        ids = programs.run("CountingClient", kafka, DIALOGS, LENGTH)
        assert len(set(ids)) == DIALOGS
        until(lambda: len(lines(tmp_path, "totals")) >= DIALOGS, "every dialog is counted to its end", PATIENCE)
    assert sorted(lines(tmp_path, "totals")) == sorted([name, str(LENGTH), str(LENGTH)] for name in ids)
    assert lines(tmp_path, "disorder") == []
    numbers = defaultdict(list)
    for conversation, n, _ in lines(tmp_path, "numbers"):
        numbers[conversation].append(int(n))
    assert numbers == {name: list(range(LENGTH)) for name in ids}


# -- a service in Java -----------------------------------------------------------------------------------------------


def begin(client: Client, dialogs: int) -> list[str]:
    """Begin dialogs in which the source counts up; return their ids."""
    ids = []
    for _ in range(dialogs):
        with client.begin_dialog("sink", counting.COUNTING) as dialog:
            for n in range(LENGTH):
                dialog.send(counting.Number(n=n, of=LENGTH))
        ids.append(dialog.id)
    return ids


def handled(kafka: Kafka) -> dict[str, list[str]]:
    """Return what the service in Java has handled, in order, by conversation."""
    found = defaultdict(list)
    for conversation, what in values(kafka, f"{kafka.namespace}.handled"):
        found[conversation].append(what)
    return found


def count(kafka: Kafka) -> int:
    """Return the number of messages and ends that the service in Java has handled."""
    return len(values(kafka, f"{kafka.namespace}.handled"))


@pytest.mark.slow
def test_a_service_in_java_and_one_in_python_handle_each_message_once_and_in_order_though_both_are_killed(
    kafka: Kafka, programs: Programs, tmp_path: Path
) -> None:
    apply(kafka, [counting.source.declaration(), SINK], PARTITIONS, 1)
    create(kafka, f"{kafka.namespace}.handled")
    whole = DIALOGS * (LENGTH + 2)

    def kill_python(slot: str) -> None:
        os.kill(int(source.workers()[slot]["pid"]), signal.SIGKILL)

    def await_share(share: float) -> int:
        """Wait until the service in Java has handled this share of all that it will handle. Return how much it has handled."""
        return until(
            lambda: found if (found := count(kafka)) > share * whole else 0, f"{share:.0%} is handled", PATIENCE
        )

    with (
        Running(kafka, tmp_path, "counting:source", "--workers", "2", "--slot", "left") as source,
        RunningService(programs, kafka, tmp_path) as sink,
        Client(counting.source, kafka) as client,
    ):
        source.ready()
        ids = begin(client, DIALOGS // 2)
        await_share(0.05)
        kill_python("left-1")
        ids += begin(client, DIALOGS - DIALOGS // 2)
        assert await_share(0.55) < whole, "killed too late: everything was handled"
        sink.kill()
        sink.start_again()  # at once: until then, the open transaction of the killed process hides records
        kill_python("left-2")
        until(lambda: count(kafka) >= whole, "all is handled", PATIENCE)
        assert sink.is_alive, sink.log.read_text()
    numbers = [f"{at} {at}" for at in range(LENGTH)]
    once = [*numbers, f"{LENGTH} total {LENGTH}", f"{LENGTH + 1} end"]
    assert handled(kafka) == dict.fromkeys(ids, once)
    assert lines(tmp_path, "disorder") == []


# -- the rules of the protocol ---------------------------------------------------------------------------------------


class Peer:
    """Forges the envelopes of one dialog with the service in Java."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.now = time.time_ns() // 1_000
        conversation = draw()
        self.prefix = Prefix(
            conversation.bytes, True, "Counting", "source", "sink", str(conversation), False, self.now + HOUR, -1
        )

    def number(self, n: int, **fields: object) -> Envelope:
        body = json.dumps({"n": n, "of": LENGTH}).encode()
        genuine = Envelope(
            self.prefix, Kind.MESSAGE, n, NONE, sent_at=self.now, message_type="Number", content_type="application/json", body=body
        )  # fmt: skip
        return replace(genuine, **fields)  # type: ignore[arg-type]

    def said(self, kind: Kind, seq: int = NONE, **fields: object) -> Envelope:
        return replace(Envelope(self.prefix, kind, seq, NONE, sent_at=self.now), **fields)  # type: ignore[arg-type]

    def prefixed(self, **fields: object) -> Envelope:
        return self.number(0, prefix=replace(self.prefix, **fields))  # type: ignore[arg-type]

    def answers(self) -> list[Envelope]:
        ours = self.prefix.conversation_id
        return [it for it in envelopes(self._kafka, "source") if it.prefix.conversation_id == ours]

    def acknowledged(self) -> int:
        """Return the highest number that the service has acknowledged."""
        return max((it.ack for it in self.answers()), default=NONE)

    def broken_with(self) -> list[int]:
        return [it.code for it in self.answers() if it.kind is Kind.ERROR]


@pytest.fixture
def strict(kafka: Kafka, programs: Programs, tmp_path: Path) -> Iterator[RunningService]:
    """The service in Java, with one partition. Its peer has a queue and no worker."""
    apply(kafka, [counting.source.declaration(), SINK], 1, 1)
    create(kafka, f"{kafka.namespace}.handled")
    with RunningService(programs, kafka, tmp_path) as service:
        yield service
        assert service.is_alive, service.log.read_text()


def await_handled(kafka: Kafka, peer: Peer, *whats: str) -> None:
    """Wait until the service has handled exactly this on the dialog."""
    ours = peer.prefix.reply_key
    until(lambda: handled(kafka)[ours] == list(whats), f"{whats}")


def settle(kafka: Kafka) -> None:
    """Wait until the service has handled a dialog that begins now, and so everything before it."""
    last = Peer(kafka)
    throw(kafka, "sink", last.number(0))
    await_handled(kafka, last, "0 0")


def test_the_service_in_java_drops_duplicates_and_holds_what_comes_too_early(
    kafka: Kafka, strict: RunningService
) -> None:
    peer = Peer(kafka)
    zero, one, two, three = map(peer.number, range(4))
    throw(kafka, "sink", two, zero, zero, three, two, one, one, peer.said(Kind.END, 4), three, zero)
    settle(kafka)
    await_handled(kafka, peer, "0 0", "1 1", "2 2", "3 3", "4 end")
    assert [it.seq for it in peer.answers() if it.kind is Kind.MESSAGE] == [0, 1, 2, 3]
    assert peer.acknowledged() == 4
    assert letters(kafka, "sink") == []


def test_the_service_in_java_keeps_what_it_holds_when_it_is_killed(kafka: Kafka, strict: RunningService) -> None:
    peer = Peer(kafka)
    throw(kafka, "sink", peer.number(0), peer.number(2))
    settle(kafka)
    strict.kill()
    strict.start_again()
    throw(kafka, "sink", peer.number(1))
    await_handled(kafka, peer, "0 0", "1 1", "2 2")


def test_the_service_in_java_acknowledges_an_error_and_writes_dead_letters_of_what_it_held(
    kafka: Kafka, strict: RunningService
) -> None:
    peer = Peer(kafka)
    held, late = peer.number(3), peer.number(2)
    throw(
        kafka, "sink", peer.number(0), held, peer.said(Kind.ERROR, 4, code=7, description="no more"), late, late, held
    )
    await_handled(kafka, peer, "0 0", "1 error 7 no more")
    settle(kafka)
    assert peer.acknowledged() == 4
    assert peer.broken_with() == []
    assert letters(kafka, "sink") == [encode(held), encode(late)]


def test_the_service_in_java_begins_no_dialog_that_its_peer_has_ended_with_an_error(
    kafka: Kafka, strict: RunningService
) -> None:
    peer = Peer(kafka)
    first = peer.number(0)
    throw(kafka, "sink", peer.said(Kind.ERROR, 1, code=7, description="too late"), first, first)
    settle(kafka)
    assert [(it.kind, it.ack) for it in peer.answers()] == [(Kind.ACK, 1)]
    assert letters(kafka, "sink") == [encode(first)]


def test_the_service_in_java_refuses_and_breaks_with_the_codes_of_the_protocol(
    kafka: Kafka, strict: RunningService
) -> None:
    past = time.time_ns() // 1_000 - HOUR
    refused: dict[int, Callable[[Peer], Envelope]] = {
        -8408: lambda it: it.prefixed(contract="Talking"),
        -8462: lambda it: it.prefixed(accept_until=past),
        -8489: lambda it: it.prefixed(expires_at=past),
        -8498: lambda it: it.number(0, message_type="Unheard"),
        -8457: lambda it: it.number(0, message_type="Echo"),
        -9615: lambda it: it.number(0, body=b"{"),
    }
    peers = {code: Peer(kafka) for code in refused}
    for code, forge in refused.items():
        first = forge(peers[code])
        throw(kafka, "sink", first, first)
    resending, target = Peer(kafka), Peer(kafka)
    throw(kafka, "sink", resending.number(0), resending.said(Kind.RESEND), target.prefixed(from_initiator=False))
    settle(kafka)
    assert {code: peer.broken_with() for code, peer in peers.items()} == {code: [code] for code in refused}
    assert (resending.broken_with(), target.broken_with()) == ([-8462], [-8462])
    assert {it.prefix.from_initiator for it in target.answers()} == {True}


def test_the_service_in_java_sets_invalid_records_aside_and_goes_on_with_the_dialog(
    kafka: Kafka, strict: RunningService
) -> None:
    peer, other = Peer(kafka), Peer(kafka)
    throw(kafka, "sink", peer.number(0))
    bad = [
        peer.number(NONE),
        peer.number(1, fragments=2),
        peer.said(Kind.FENCE),
        peer.said(Kind.ERROR, code=0),
        peer.said(Kind.ACK, 1),
        peer.number(1, skipped=(0,)),
        peer.prefixed(to_service="other"),
        peer.prefixed(from_service="sink"),
        peer.prefixed(contract="Talking"),
        other.said(Kind.ACK),
        other.said(Kind.RESEND),
        other.prefixed(from_service="nobody"),
        other.prefixed(accept_until=other.now + 25 * HOUR),
    ]
    thrown = throw(kafka, "sink", *bad)
    throw(kafka, "sink", peer.number(1))
    await_handled(kafka, peer, "0 0", "1 1")
    assert letters(kafka, "sink") == thrown
    assert (other.answers(), peer.broken_with()) == ([], [])


def test_the_service_in_java_breaks_a_dialog_by_itself_when_its_lifetime_is_over(
    kafka: Kafka, strict: RunningService
) -> None:
    settle(kafka)  # the service is up, so the lifetime is not over before the first message
    peer = Peer(kafka)
    throw(kafka, "sink", peer.prefixed(expires_at=peer.now + 5 * SECOND))
    await_handled(kafka, peer, "0 0", "1 error -8489 The dialog has exceeded its lifetime.")
    assert peer.broken_with() == []
