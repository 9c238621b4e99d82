"""The timers that the read model has, and what `conversations timers` takes as its argument."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from conversations.protocol import rows
from conversations.protocol.topics import STATE
from conversations.testing import Simulation
from conversations.testing.reading import state_of
from conversations_ops.cli.app import app
from conversations_ops.cli.timers import _about, _distance, _text
from conversations_ops.read_model.derived import derive
from conversations_ops.read_model.file import File
from conversations_ops.read_model.kept import kept
from conversations_ops.read_model.timers import Timer, timers, timers_of
from conversations_ops.read_model.written import forget, write_rows
from tests.simulation.support.services import ECHO, Say
from tests.unit.ops.test_dialogs import listener

ID = "0199c1f2-0000-7000-8000-000000000001"
PLACE = ("moody", 0)
HOUR = 3_600_000_000


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    with File(tmp_path / "model.sqlite") as file:
        with file.transaction() as connection:
            connection.execute("INSERT INTO places VALUES ('conv.moody.state',0,'moody',?,'an id',0,0)", (STATE,))
        yield file


def write(file: File, table: dict[bytes, bytes | None]) -> None:
    with file.transaction() as connection:
        write_rows(connection, PLACE, kept(table.items()))
        while derive(connection, "conv", 10):
            pass


def state() -> dict[bytes, bytes]:
    with Simulation(listener(), raise_failures=False, partitions=1) as sim:
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="set"))
        sim.run()
        (table,) = state_of(sim.broker, "moody")
    return table


def test_a_timer_comes_with_its_side_and_goes_with_it(file: File) -> None:
    table = state()
    write(file, {**table})
    (found,) = timers(file, "moody", 0, 10).first
    (key,) = (key for key in table if key[:1] == rows.ENDPOINT)
    assert (found.service, found.partition, found.own, found.name, found.contract) == ("moody", 0, key[1:], "", "Echo")
    assert (found.initiator, found.peer) == (False, "web")
    for before, overdue in ((found.due, 0), (found.due + 1, 1)):
        assert timers(file, "", before, 10)[1:] == (1, overdue)
        of = timers_of(file, key[1:17], "moody", before)
        assert of is not None
        assert (of.first, of.overdue) == ([found], overdue)
    assert timers(file, "other", 0, 10).total == 0
    assert timers_of(file, key[1:17], "other", 0) is timers_of(file, bytes(16), "", 0) is None
    write(file, {**table})  # a side that is derived again has its timers once
    assert timers(file, "moody", 0, 10).total == 1
    write(file, {key: None})
    assert timers(file, "moody", 0, 10).total == 0


def test_the_timer_that_is_due_first_comes_first(file: File) -> None:
    with file.transaction() as connection:
        connection.execute("INSERT INTO places VALUES ('conv.other.state',0,'other',?,'an id',0,0)", (STATE,))
        for number, (service, due) in enumerate((("moody", 5), ("other", 3), ("moody", 1), ("other", 9))):
            connection.execute("INSERT INTO timers VALUES (?,0,?,'',?,'C','p')", (service, bytes([number]), due))
    found = timers(file, "", 4, 3)
    assert ([it.due for it in found.first], found.total, found.overdue) == ([1, 3, 5], 4, 2)
    with file.transaction() as connection:
        forget(connection, STATE, ("moody", 0))
    assert timers(file, "", 4, 3).total == 2


def test_an_argument_is_a_dialog_or_a_service() -> None:
    own = bytes.fromhex(ID.replace("-", ""))
    assert _about("", "", "") == ("", b"")
    assert _about("orders", "", "") == _about("", "orders", "") == ("orders", b"")
    assert _about(ID, "", "") == _about("", "", ID) == ("", own)
    assert _about(ID, "orders", "") == _about("orders", "", ID) == ("orders", own)
    for twice in (("orders", "orders", ""), (ID, "", ID), ("", "", "nonsense")):
        with pytest.raises(typer.BadParameter):
            _about(*twice)


def test_a_timer_says_when_it_is_due_and_how_late_it_is() -> None:
    now = time.time_ns() // 1_000
    timer = Timer("orders", 0, bytes(16) + b"\1", "\x1b[31mred", now - 3 * HOUR, "Orders", "shop")
    header, row = _text([timer], now).split("\n")
    assert (header.split("\t")[:4], row.split("\t")[2:6]) == (
        ["TIMER", "DUE", "IN", "LATE"], ["", "3h0m", "orders", "initiator"],
    )  # fmt: skip
    assert "\x1b" not in row
    assert _distance(2**62) == "53375995d14h", "a record from outside may have any time"
    assert _text([], now) == "no timer is set"


def test_a_wrong_command_line_is_an_error_of_usage() -> None:
    for arguments in (["--late", "soon"], ["--limit", "0"], ["orders", "--service", "orders"]):
        done = CliRunner().invoke(app, ["timers", *arguments, "--json", "--bootstrap", "127.0.0.1:1"])
        assert done.exit_code == 2, done.output
        assert json.loads(done.stdout)["error"]
