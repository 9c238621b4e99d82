"""Pieces: a client's command that is too large for one record takes effect once, whole, with its last piece."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conversations import BodyTooLarge, Kafka
from conversations.config import Limits, Periods, WorkerSettings
from conversations.local import LocalClient
from conversations.ports import Headers
from conversations.protocol import codes, repetitions, rows
from conversations.protocol import command as commands
from conversations.protocol.command import Command, Piece, decode_command, encode_command
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.fragments import cut
from conversations.protocol.topics import COMMANDS, QUEUE, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import state_of, visible
from conversations.worker import pieces
from tests.simulation.support.records import queued, rows_of
from tests.simulation.support.two_clusters import TALK, Both, Word

LONG = "long" * 100
"""A text of 400 bytes. With its command, it comes in pieces of 64 bytes."""
PIECE = 64


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands above 128 bytes go in pieces."""
    monkeypatch.setattr(commands, "COMMAND_BYTES", 2 * PIECE)
    monkeypatch.setattr(commands, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(pieces, "COMMAND_BYTES", 2 * PIECE)


class Held:
    """A sink that keeps the records of commands, so that a test appends them one by one."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes]] = []

    def append_async(
        self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
    ) -> Future[None]:
        self.records += [(key, value) for value in values]
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def close(self) -> None: ...


class World:
    """Services on one cluster, with a client of the first one whose records are appended by hand."""

    def __init__(self, *, alone: bool = False, periods: Periods | None = None, **limits: int) -> None:
        self.both = Both()
        settings = WorkerSettings(
            patience=timedelta(0), revocation=timedelta(0), limits=Limits(**({"fragment_bytes": 32, "body_bytes": 1_000} | limits)), periods=periods or Periods()
        )  # fmt: skip
        services = (self.both.here,) if alone else (self.both.here, self.both.there)
        self.sim = Simulation(*services, settings=settings, raise_failures=False, now=datetime.now(UTC))  # fmt: skip
        self.held = Held()
        self.client = LocalClient(self.both.here, Kafka("memory"), self.held, broker=self.sim.broker)

    def say(self, *texts: str) -> tuple[str, list[tuple[bytes, bytes]]]:
        """Begin a dialog in one block. Return its id, and the records of its command."""
        self.held.records = []
        with self.client.begin_dialog("there", TALK) as dialog:
            for text in texts:
                dialog.send(Word(text=text))
        return dialog.id, self.held.records

    def append(self, *records: tuple[bytes, bytes]) -> None:
        for key, value in records:
            self.sim.broker.append_keyed("here", COMMANDS, key, value)
        self.sim.run()

    def kept(self) -> list[bytes]:
        """Return the keys of all rows of pieces."""
        return [
            key for table in state_of(self.sim.broker, "here") for key in table if repetitions.is_piece(key)
        ]  # fmt: skip

    @property
    def heard(self) -> list[list[str]]:
        return list(self.both.heard.values())

    def refused(self) -> list[tuple[str, int]]:
        return [(it.reason, it.code) for it in self.sim.dead_letters("here")]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.sim:
        yield made


def test_a_large_block_takes_effect_with_its_last_piece(world: World) -> None:
    name, records = world.say("a", LONG, "last")
    assert len(records) > 7
    assert all(len(value) < 3 * PIECE for _, value in records)
    world.append(*records[:-1])
    assert world.heard == []
    assert len(world.kept()) == len(records) - 1
    world.append(records[-1])
    assert world.both.heard == {name: ["a", LONG, "last"]}
    assert world.both.answers == {name: ["a", LONG, "last"]}
    assert world.kept() == []
    assert world.sim.worker("here").partitions
    assert {p.pieces.bytes for p in world.sim.worker("here").partitions.values()} == {0}
    queue = visible(world.sim.broker, service_topic(world.sim.broker.namespace, "there", QUEUE))
    cut = [it for it in (decode(record.value() or b"") for record in queue) if it.fragments > 1]
    assert {it.kind for it in cut} == {Kind.MESSAGE}
    assert len(cut) > 10, "the owner sends the message in fragments"


def test_a_client_may_send_while_fragments_wait_for_the_next_step() -> None:
    made = World(flow_bytes=400, dialog_bytes=500, delayed_bytes=100)
    with made.sim:
        name, records = made.say(LONG)
        made.held.records = []
        with made.client.dialog(name) as dialog:
            dialog.send(Word(text="last"))
        for key, value in records:
            made.sim.broker.append_keyed("here", COMMANDS, key, value)
        worker = made.sim.worker("here")
        while not any(it.waiting.delayed.bytes > 100 for it in worker.partitions.values()):
            worker.step()
        made.append(*made.held.records)
        assert made.both.heard == {name: [LONG, "last"]}
        assert made.refused() == []


def test_a_small_block_is_one_record(world: World) -> None:
    _, records = world.say()
    assert [type(decode_command(value).operations[0]) for _, value in records] == [commands.Begin]


def test_workers_that_die_among_the_pieces_lose_none(world: World) -> None:
    name, records = world.say(LONG, "last")
    for record in records:
        world.append(record)
        world.sim.crash("here")
        world.sim.run()
    assert world.both.heard == {name: [LONG, "last"]}
    assert world.kept() == []
    world.sim.check_invariants()


def test_what_comes_again_has_no_effect(world: World) -> None:
    name, records = world.say(LONG, "last")
    for record in records:
        world.append(record, record)
    world.append(*records)
    assert world.both.heard == {name: [LONG, "last"]}
    name, first = world.say("a")
    world.append(*first)
    world.held.records = []
    with world.client.dialog(name) as dialog:
        dialog.send(Word(text=LONG))
    world.append(*world.held.records, *world.held.records)
    world.append(*world.held.records)  # its fragments are transmitted now, so that no piece is kept any more
    assert world.both.heard[name] == ["a", LONG]
    assert (world.refused(), world.kept()) == ([], [])


def test_other_commands_go_on_among_the_pieces(world: World) -> None:
    name, first = world.say("a")
    world.append(*first)
    world.held.records = []
    with world.client.dialog(name) as dialog:
        dialog.send(Word(text=LONG))
    long = world.held.records
    world.held.records = []
    with world.client.dialog(name) as dialog:
        dialog.send(Word(text="b"))
    world.append(*long[:3], *world.held.records, *long[3:])
    assert world.both.heard == {name: ["a", "b", LONG]}


def test_a_client_that_dies_among_the_pieces_leaves_nothing(world: World) -> None:
    _, records = world.say(LONG)
    world.append(*records[:-1])
    assert world.kept()
    world.sim.advance(timedelta(days=3))
    assert (world.heard, world.kept(), world.refused()) == ([], [], [])
    world.append(records[-1])
    assert world.refused() == [("command-refused", 50001)]
    assert world.heard == []


def test_a_missing_piece_refuses_the_command_with_its_bytes(world: World) -> None:
    _, records = world.say(LONG)
    world.append(records[0], records[1], records[3])
    (letter,) = world.sim.dead_letters("here")
    assert (letter.reason, letter.code) == ("command-refused", 50001)
    contents = [it.content for _, value in records if isinstance(it := decode_command(value).operations[0], Piece)]
    assert letter.value == contents[0] + contents[1] + contents[3]
    assert "piece 2 of " in letter.message
    assert world.kept() == []


def test_a_command_that_is_refused_as_a_whole_keeps_all_its_bytes(world: World) -> None:
    name, first = world.say("last")
    world.append(*first)
    world.held.records = []
    with world.client.dialog(name) as dialog:
        dialog.send(Word(text=LONG))
    world.append(*world.held.records)
    (letter,) = world.sim.dead_letters("here")
    assert (letter.reason, letter.code) == ("command-refused", 8429)
    (sent,) = decode_command(letter.value).operations
    assert isinstance(sent, commands.Send)
    assert LONG.encode() in sent.body
    assert world.kept() == []


@pytest.mark.parametrize(
    ("piece", "says"),
    [
        (Piece(0, 1, b""), "no possible piece"),
        (Piece(3, 3, b"x"), "no possible piece"),
        (Piece(-1, 3, b"x"), "no possible piece"),
        (Piece(0, 1, b"no command"), "no command together"),
    ],
)
def test_an_impossible_piece_is_refused(world: World, piece: Piece, says: str) -> None:
    _, ((key, value),) = world.say()
    command = decode_command(value)
    command.operations = (piece,)
    world.append((key, encode_command(command)))
    (letter,) = world.sim.dead_letters("here")
    assert (letter.reason, letter.code, letter.value) == ("command-refused", 50001, piece.content)
    assert says in letter.message


def test_the_pieces_of_another_command_are_refused(world: World) -> None:
    _, ((key, value),) = world.say()
    command = decode_command(value)
    for inner in (
        _with(command, key="other"),
        _with(command, operations=(Piece(0, 1, b"x"),)),
        _with(command, command_id=b"1" * 16),
    ):
        world.append((key, encode_command(_with(command, operations=(Piece(0, 1, encode_command(inner)),)))))
    assert world.refused() == 3 * [("command-refused", 50001)]
    world.append((key, encode_command(_with(command, operations=(*command.operations, Piece(0, 1, value))))))
    assert world.refused()[-1] == ("command-refused", 50001)


def _with(command: Command, **changes: Any) -> Command:
    fields = {name: getattr(command, name) for name in Command.__slots__} | changes
    return Command(**fields)


def test_what_is_too_large_is_refused_by_client_and_worker() -> None:
    world = World(body_bytes=200, assembled_bytes=100)
    with world.sim:
        _, records = world.say(*["a" * 90] * 20)
        world.append(*records)
        assert ("command-refused", 50001) in world.refused()
        assert any("more than 200 bytes" in it.message for it in world.sim.dead_letters("here"))
        assert world.heard == []
        others = [world.say(LONG)[1] for _ in range(12)]
        before = len(world.refused())
        for records in others:
            world.append(*records[:3])
        told = [it.message for it in world.sim.dead_letters("here")]
        assert len(told) > before
        assert any("too many commands in pieces" in it for it in told)
        world.client.limits = Limits(body_bytes=300)
        with (
            world.client.begin_dialog("there", TALK) as dialog,
            pytest.raises(BodyTooLarge, match="at most 300 are allowed"),
        ):
            dialog.send(Word(text=LONG))


def test_a_body_above_the_limit_is_refused_also_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "COMMAND_BYTES", 1_000)
    world = World(body_bytes=405)
    with world.sim:
        _, records = world.say(LONG)
        world.append(*records)
        assert (world.refused(), world.heard) == ([("command-refused", 8459)], [])


# -- large messages are transmitted from the pieces ---------------------------------------------------------------


class Slow(World):
    """A world in which a step transmits about two fragments."""

    def __init__(self, *, alone: bool = False, periods: Periods | None = None, **limits: int) -> None:
        super().__init__(alone=alone, periods=periods, flow_bytes=80, **limits)

    def begun(self, *texts: str) -> str:
        """Let a large block take effect, and stop before all of its fragments are transmitted."""
        name, records = self.say(*texts)
        for key, value in records:
            self.sim.broker.append_keyed("here", COMMANDS, key, value)
        while not self.delayed():
            self.sim.worker("here").step()
        return name

    def delayed(self) -> int:
        """Return the number of rows that refer to bodies."""
        return len(rows_of(self.sim, "here", rows.DELAYED))

    def waiting(self) -> int:
        """Return the bytes that wait for destinations."""
        return sum(it.waiting.delayed.bytes for it in self.sim.worker("here").partitions.values())

    def sent(self) -> list[tuple[int, int]]:
        """Return the number of each message for the service there, and the number of its fragments."""
        return [(it.seq, it.fragments) for it in queued(self.sim, "there") if it.kind is Kind.MESSAGE]

    def used(self) -> int:
        return sum(it.pieces.bytes for it in self.sim.worker("here").partitions.values())


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    with made.sim:
        yield made


def test_a_large_message_is_transmitted_from_the_pieces_of_its_command(slow: Slow) -> None:
    name = slow.begun(LONG, LONG + "2", "last")
    assert slow.delayed() <= 3, "the first row stands for all fragments of a message"
    pieces_of_command, steps, sent = len(slow.kept()), 0, 0
    while slow.delayed():
        assert len(slow.kept()) == pieces_of_command, "they are needed until the last fragment"
        slow.sim.worker("here").step()
        steps += 1
        assert len(slow.sent()) - sent <= 4
        sent = len(slow.sent())
    assert steps > 10
    slow.sim.run()
    assert slow.both.heard == {name: [LONG, LONG + "2", "last"]}
    numbers = [number for number, _ in slow.sent()]
    assert numbers == list(range(len(numbers))), "each fragment is transmitted once, in order"
    assert (slow.kept(), slow.used(), slow.refused()) == ([], 0, [])
    slow.sim.check_invariants()


@pytest.mark.parametrize("most", [500, 700])
def test_a_large_message_is_kept_whole_or_not_at_all(most: int) -> None:
    """The client sends the next one while fragments of the first are still to be transmitted, and a limit is reached meanwhile."""
    made = Slow(dialog_bytes=most)
    with made.sim:
        made.sim.broker.stop = lambda out: out.topic.endswith(".here.queue")  # no acknowledgement
        made.begun(LONG, LONG + "2", "last")
        made.sim.run()
        said = [it for it in queued(made.sim, "there") if it.kind is Kind.MESSAGE]
        first, *others = [it for it in said if it.fragment == 0]
        assert first.prefix.resends
        assert not others[-1].prefix.resends
        of_message = {it.seq - it.fragment: it.prefix.resends for it in said if it.fragment == 0}
        assert [it.prefix.resends for it in said] == [of_message[it.seq - it.fragment] for it in said]


def test_owners_that_die_between_the_fragments_lose_none(slow: Slow) -> None:
    name = slow.begun(LONG, LONG + "2", "last")
    while slow.delayed():
        slow.sim.crash("here")
        worker = slow.sim.worker("here")
        before = len(slow.sent())
        while slow.delayed() and len(slow.sent()) == before:
            worker.step()
    slow.sim.run()
    assert slow.both.heard == {name: [LONG, LONG + "2", "last"]}
    assert (slow.kept(), slow.used()) == ([], 0)
    slow.sim.check_invariants()


def test_pieces_stay_as_long_as_a_message_needs_them() -> None:
    made = Slow(alone=True, periods=Periods().scaled(100))
    with made.sim:
        name = made.begun(LONG, "last")
        made.sim.advance(timedelta(minutes=40))
        assert made.kept(), "their time is over, and the service there does not exist yet"
        made.sim.crash("here")
        made.sim.deploy(made.both.there)
        made.sim.advance(timedelta(minutes=5))
        assert made.both.heard == {name: [LONG, "last"]}
        assert made.kept() == []


def test_a_body_in_pieces_counts_among_the_bytes_that_wait_for_its_destination() -> None:
    made = Slow(alone=True, dialog_bytes=900)
    with made.sim:
        name = made.begun(LONG)
        for text in (LONG, LONG + "2"):
            made.held.records = []
            with made.client.dialog(name) as dialog:
                dialog.send(Word(text=text))
            made.append(*made.held.records)
        assert made.refused() == [("command-refused", codes.CLOGGED.number)], (
            "two messages are more than the dialog may keep"
        )
        before = made.waiting()
        assert before > 2 * len(LONG)
        made.sim.crash("here")
        made.sim.run()
        assert made.waiting() == before
        made.sim.deploy(made.both.there)
        made.sim.advance(timedelta(minutes=5))
        assert made.both.heard == {name: [LONG, LONG]}
        assert (made.kept(), made.used(), made.waiting()) == ([], 0, 0)


def test_a_message_that_is_never_transmitted_comes_back_whole() -> None:
    made = Slow(alone=True)
    with made.sim:
        made.begun(LONG, "last")
        made.sim.advance(timedelta(hours=2))
        given_back(made)


def test_a_dialog_that_breaks_between_the_fragments_gives_the_message_back_whole(slow: Slow) -> None:
    slow.begun("break", LONG, "last")
    slow.sim.run()
    assert list(slow.both.heard.values()) == [["break"]]
    assert 0 < len(slow.sent()) < 10
    given_back(slow)


def given_back(made: Slow) -> None:
    """Check that the long message and the last one are dead letters, and that nothing else is left of them."""
    letters = [(it.reason, it.fragments, decode(it.value).body.decode()) for it in made.sim.dead_letters("here")]
    assert [reason for reason, *_ in letters] == ["undeliverable"] * 2
    assert [LONG in body for *_, body in letters] == [True, False]
    assert letters[0][1] > 10
    assert (made.kept(), made.used(), made.delayed()) == ([], 0, 0)
    made.sim.check_invariants()


def test_a_whole_command_is_not_joined_beside_its_bodies(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(_: bytes) -> Command:
        raise AssertionError("the pieces were joined")

    monkeypatch.setattr(pieces, "decode_command", whole)
    name, records = slow.say(LONG, LONG + "2", "last")
    slow.append(*records)
    assert slow.both.heard == {name: [LONG, LONG + "2", "last"]}


def test_a_repetition_with_another_id_is_known_by_its_content(slow: Slow) -> None:
    name, records = slow.say(LONG, "last")
    slow.append(*records)
    contents = [it.content for _, value in records if isinstance(it := decode_command(value).operations[0], Piece)]
    again = _with(decode_command(b"".join(contents)), command_id=b"2" * 16, issued_by="again")
    key = records[0][0]
    slow.append(*((key, value) for value in commands.records_of(again)))
    assert (slow.both.heard, slow.refused()) == ({name: [LONG, "last"]}, [])
    other = _with(again, command_id=b"3" * 16, operations=(*again.operations, again.operations[-1]))
    slow.append(*((key, value) for value in commands.records_of(other)))
    assert slow.refused() == [("command-refused", 50003)]
    assert slow.kept() == []


@pytest.mark.parametrize("dies", [False, True])
def test_a_command_that_differs_in_one_byte_in_the_middle_is_another_one(slow: Slow, dies: bool) -> None:
    name, records = slow.say(LONG, "last")
    slow.append(*records[:-1])
    if dies:
        slow.sim.crash("here")
    slow.append(records[-1])
    contents = [it.content for _, value in records if isinstance(it := decode_command(value).operations[0], Piece)]
    whole = decode_command(b"".join(contents))
    begin, long, last = whole.operations
    assert isinstance(long, commands.Send)
    changed = commands.Send(long.message_type, long.content_type, long.body[:200] + b"L" + long.body[201:])
    for number, operations in enumerate([whole.operations, (begin, changed, last)]):
        again = _with(whole, command_id=bytes([number]) * 16, operations=operations)
        slow.append(*((records[0][0], value) for value in commands.records_of(again)))
    assert (slow.both.heard, slow.refused()) == ({name: [LONG, "last"]}, [("command-refused", 50003)])


def test_pieces_that_come_to_several_workers_are_not_joined_either(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(_: bytes) -> Command:
        raise AssertionError("the pieces were joined")

    monkeypatch.setattr(pieces, "decode_command", whole)
    name, records = slow.say(LONG, "last")
    slow.append(*records[:3])
    slow.sim.crash("here")
    slow.append(*records[3:])
    assert slow.both.heard == {name: [LONG, "last"]}


def test_a_command_that_another_program_cut_into_tiny_pieces_takes_effect(slow: Slow) -> None:
    name, records = slow.say(LONG, "last")
    parts = [it.content for _, value in records if isinstance(it := decode_command(value).operations[0], Piece)]
    tiny = list(cut(b"".join(parts), 20))
    piece = decode_command(records[0][1])
    for index, content in enumerate(tiny):
        record = encode_command(_with(piece, operations=(Piece(index, len(tiny), content),)))
        slow.append((records[0][0], record))
    assert slow.both.heard == {name: [LONG, "last"]}
    assert slow.kept() == []
