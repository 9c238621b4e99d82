"""The namespace that the benchmark of the console plants: the product's own read model understands it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.console.part import GOAL, sheets
from bench.console.planting import BILLING, Dated, Planted, body, word
from bench.console.visits import journeys
from conversations import Kafka
from conversations.ports import Record
from conversations.protocol.letters import source_of
from conversations.protocol.topics import DEAD_LETTER, QUEUE, STATE
from conversations_ops.operate.events import told_in
from conversations_ops.read_model.derived import derive
from conversations_ops.read_model.dialogs import search
from conversations_ops.read_model.file import File
from conversations_ops.read_model.kept import kept
from conversations_ops.read_model.written import write_rows

DIALOGS, LETTERS = 2_000, 200


@pytest.fixture(scope="module")
def planted() -> tuple[Planted, list[Dated]]:
    made = Planted(Kafka("127.0.0.1:1", namespace="big"), DIALOGS, LETTERS)
    return made, list(made.records())


def of_kind(records: list[Dated], kind: str) -> list[Any]:
    return [record for _, record in records if record[0].endswith(f".{kind}")]


def test_every_dialog_has_two_sides_and_the_failed_ones_wait(
    planted: tuple[Planted, list[Dated]], tmp_path: Path
) -> None:
    made, records = planted
    with File(tmp_path / "model.sqlite") as file:
        with file.transaction() as connection:
            for topic, partition, key, value, _ in of_kind(records, STATE):
                service = topic.split(".")[1]
                connection.execute(
                    "INSERT OR IGNORE INTO places VALUES (?,?,?,'state','an id',0,0)", (topic, partition, service)
                )
                write_rows(connection, (service, partition), kept([(key, value)]))
            while derive(connection, "big", 1_000):
                pass
        ask = file.connection.execute
        assert ask("SELECT count(*), sum(closed) FROM sides").fetchone() == (2 * DIALOGS, 2 * DIALOGS // 10)
        assert ask("SELECT count(*), count(due) FROM parked WHERE service = ?", (BILLING,)).fetchone() == (LETTERS, 100)
        assert ask("SELECT count(*) FROM open").fetchone() == (made.open_letters,)
        assert {name for (name,) in ask("SELECT letter FROM parked")} == {it.name for it in made.waiting}
        number = made.waiting[7].dialog
        assert {it.own[:16] for it in search(file, word(number))} == {made.id(number)}


def test_letters_name_the_record_of_the_queue_that_they_keep(planted: tuple[Planted, list[Dated]]) -> None:
    _, records = planted
    queue: dict[int, list[bytes]] = {}
    for topic, partition, _, value, _ in of_kind(records, QUEUE):
        if f".{BILLING}." in topic:
            queue.setdefault(partition, []).append(value)
    letters = of_kind(records, DEAD_LETTER)
    assert len(letters) == LETTERS + LETTERS // 5
    for _, partition, _, value, headers in letters:
        source = source_of(dict(headers))
        assert source is not None
        assert queue[partition][source.offset] == value


def test_the_events_are_those_of_workers(planted: tuple[Planted, list[Dated]]) -> None:
    made, records = planted
    values = [value for _, (topic, _, _, value, _) in records if topic.endswith("events")]
    given = [SimpleNamespace(value=lambda value=value: value) for value in values]
    told = [it for _, it in told_in(cast("list[Record]", given))]
    assert len(told) == made.events
    assert sum(it.name == "RESOLVED" for it in told) == made.events // 10


def test_queues_are_written_with_the_times_of_their_dialogs(planted: tuple[Planted, list[Dated]]) -> None:
    made, records = planted
    times = [at for at, record in records if record[0].endswith(f".{QUEUE}")]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (made.began(0) // 1_000, made.began(DIALOGS - 1) // 1_000)


def test_visits_are_varied(planted: tuple[Planted, list[Dated]]) -> None:
    made, _ = planted
    found = journeys(made, 20)
    assert len({it.path for it in found["one dialog"]}) == len({it.path for it in found["one letter"]}) == 20
    assert body(1, 0) != body(2, 0)


def test_a_page_that_is_too_slow_is_named() -> None:
    def page(p95: float) -> dict[str, float]:
        return {"count": 100, "p50_ms": 1.0, "p95_ms": p95, "max_ms": 300.0, "first_ms": 9.0}

    reading = {
        "records": 10,
        "seconds": 2.0,
        "cpu_seconds": 1.0,
        "peak_mb": 50.0,
        "file_mb": 3.0,
        "again_seconds": 0.05,
    }
    found: dict[str, Any] = {
        "dialogs": 10, "letters": 5, "behind": 2, "pages": {"overview": page(GOAL), "events": page(GOAL + 1)},
        "catching_up": reading, "console_peak_mb": 60.0, "idle_cpu": 0.01, "load": 0.1,
    }  # fmt: skip
    pages, model = sheets(found)
    assert pages.notes[1] == "Slower than 200 ms at p95: events."
    assert model.rows[0][2] == "5"
    assert sheets({"failures": ["it broke"]}) == []
