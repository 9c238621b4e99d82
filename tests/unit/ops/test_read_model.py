"""The rows that the read model keeps, and what it derives from them."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conversations.protocol import rows
from conversations.protocol.topics import QUEUE, service_topic
from conversations.protocol.waiting_row import decode_waiting
from conversations.testing import Simulation
from conversations.testing.reading import state_of
from conversations_ops.read_model.derived import derive
from conversations_ops.read_model.dialogs import search
from conversations_ops.read_model.file import File
from conversations_ops.read_model.kept import NOBODY, kept
from conversations_ops.read_model.projector import Overtaken, _arrive
from conversations_ops.read_model.status import Status, cause, next_command
from conversations_ops.read_model.written import write_rows
from tests.simulation.test_cleanup import listener, with_all

PLACE = ("moody", 0)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    with File(tmp_path / "model.sqlite") as file:
        yield file


def write(file: File, *records: tuple[bytes, bytes | None]) -> None:
    with file.transaction() as connection:
        write_rows(connection, PLACE, kept(records))


def derived(file: File) -> list[tuple[bytes, int, int]]:
    with file.transaction() as connection:
        while derive(connection, "conv", 1):
            pass
        return connection.execute("SELECT own, parked, delayed FROM sides").fetchall()


def state() -> dict[bytes, bytes]:
    with Simulation(listener(), raise_failures=False, partitions=1) as sim:
        with_all(sim)
        (table,) = state_of(sim.broker, "moody")
    return table


def test_a_side_is_derived_from_its_rows_in_any_order(file: File) -> None:
    table = state()
    (own,) = (key[1:] for key in table if key[:1] == rows.ENDPOINT)
    for key, value in sorted(table.items(), reverse=True):
        write(file, (key, value))
    assert derived(file) == [(own, 2, 0)]
    ((what, exception, behind),) = file.connection.execute("SELECT what, exception, behind FROM parked")
    assert (what, exception, behind) == ("Say", "ValueError", 1)
    write(file, *((key, None) for key in table))
    assert derived(file) == []
    assert file.connection.execute("SELECT * FROM rows").fetchall() == []
    assert file.connection.execute("SELECT * FROM parked").fetchall() == []


def test_of_several_values_the_last_counts_and_other_rows_are_not_kept() -> None:
    table = state()
    key = next(key for key in table if key[:1] == rows.ENDPOINT)
    assert [it.value for it in kept([(key, table[key]), (key, None)])] == [None]
    assert kept([(rows.GROUP + b"moody\0key", b"x"), (rows.COMMAND + b"x" * 16, b""), (b"", b"")]) == []


def test_a_waiting_record_belongs_to_the_side_that_it_is_for(file: File) -> None:
    """Its key does not name the side, so the side is marked when the row goes, and when another record takes its number."""
    table = state()
    parked = next(value for key, value in table.items() if key[:1] == rows.PARKED)
    (own,) = (key[1:] for key in table if key[:1] == rows.ENDPOINT)
    waiting = decode_waiting(parked)
    assert waiting.topic in (QUEUE, service_topic("conv", "moody", QUEUE))
    key = rows.WAITING + b"\0" * 8
    write(file, (key, parked))
    assert file.connection.execute("SELECT own FROM changed").fetchall() == [(own,)]
    derived(file)
    write(file, (key, None))
    assert file.connection.execute("SELECT own FROM changed").fetchall() == [(own,)]
    derived(file)
    write(file, (key, parked))
    derived(file)
    write(file, (key, b"nonsense"))
    assert file.connection.execute("SELECT own FROM changed").fetchall() == [(own,)]
    assert kept([(key, b"nonsense")])[0].own == NOBODY


def status(**changed: object) -> Status:
    nothing = Status("orders", 4, 0, "", "", 0, 3, 0, 0, 0, 0, 0, None, (), ())
    return nothing._replace(**changed)  # type: ignore[arg-type]  # its fields have several types


def test_the_cause_that_stops_most_comes_first() -> None:
    def clock(at: int) -> str:
        return str(at)

    assert (cause(status(), clock), next_command(status()), status().needs_person) == ("", "", False)
    waits = status(waits_for=(("credit", 96),))
    assert (cause(waits, clock), waits.needs_person) == ("waits for credit (96 dialogs)", False)
    letters = status(letters=1)
    assert (cause(letters, clock), letters.needs_person) == ("1 open letter of dialogs that are over", True)
    off = waits._replace(off=1, off_why="operator", off_reason="INC-1", off_since=7)
    assert cause(off, clock) == "queue off in 1 of 4 partitions since 7 (operator: INC-1)"
    assert cause(off._replace(off=4), clock).startswith("queue off since 7")


def test_a_reader_that_was_overtaken_leaves_no_hole(file: File) -> None:
    """Another process has made the file anew meanwhile, so the file has not the records before those of this process."""
    place = ("conv.moody.state", 0)
    with file.transaction() as connection:
        connection.execute("INSERT INTO places VALUES (?,?,'moody','state','an id',7,0)", place)
        _arrive(connection, place, 7, 9)
        assert connection.execute("SELECT next FROM places").fetchall() == [(9,)]
    with pytest.raises(Overtaken, match="run the command again"), file.transaction() as connection:
        _arrive(connection, place, 10, 12)
    assert file.connection.execute("SELECT next FROM places").fetchall() == [(9,)]


def sums(file: File) -> list[tuple[object, ...]]:
    return file.connection.execute("SELECT peer, open, pending, delayed, parked, kept_back FROM sums").fetchall()


def test_the_sums_are_those_of_the_open_sides_whatever_happened_before(file: File) -> None:
    table = state()
    (key,) = (key for key in table if key[:1] == rows.ENDPOINT)
    for _ in range(3):  # a side that is derived again is not counted again
        write(file, *table.items())
        derived(file)
        ((_, *found),) = sums(file)
        (expected,) = file.connection.execute("SELECT 1, pending, delayed, parked, delayed > 0 FROM sides").fetchall()
        assert found == list(expected)
    stone = rows.Tombstone("key", "", 10**18, 0, 0, 0, 0, told=True, code=0)
    write(file, (key, rows.encode_tombstone(stone)))
    derived(file)
    assert sums(file) == []


def test_a_search_reads_bodies_only_if_nothing_else_is_found(file: File) -> None:
    table = state()
    with file.transaction() as connection:
        connection.execute("INSERT INTO places VALUES ('conv.moody.state',0,'moody','state','an id',0,0)")
    write(file, *table.items())
    ((own, _, _),) = derived(file)
    assert [it.own for it in search(file, "Say")] == [own]  # the type of the message that waits is in its record
    assert search(file, "Say", bodies=False) == []
    other = (
        "INSERT INTO sides SELECT service, partition, x'02', contract, peer, state, began, closed, pending, parked, delayed, 'Saying', code "
        "FROM sides"
    )
    with file.transaction() as connection:
        connection.execute(other)
    assert [it.own for it in search(file, "Say")] == [b"\2"]


def test_a_new_file_waits_while_another_process_has_it_locked(tmp_path: Path) -> None:
    """Two commands that make the file at the same time both work."""
    path, failures, opened = tmp_path / "model", list[BaseException](), threading.Event()

    def open_it() -> None:
        try:
            File(path).close()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            failures.append(error)
        opened.set()

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # as a process that turns the log on
        thread = threading.Thread(target=open_it)
        thread.start()
        assert not opened.wait(0.3)  # it waits, and has not failed
        other.execute("COMMIT")
    thread.join(10)
    assert opened.is_set()
    assert not failures
