"""What the demo adds up by plain code, and how it tells that Spark has something else."""

from datetime import date

from conversations_ops.demo.flights import Flight
from conversations_ops.demo.pipeline import differences, utilisation


def flight(day: int, *, clock: int = 700, departed: bool = True, minutes: int | None = 60) -> Flight:
    departure = clock if departed else None
    return Flight(1, date(2013, 1, day), "N1", "UA", 1, "EWR", "IAH", clock, departure, 0, clock, minutes)


def test_flights_that_departed_are_added_up_by_aircraft_and_scheduled_day() -> None:
    flights = [flight(1), flight(1, minutes=None), flight(1, departed=False), flight(2), flight(2, clock=2400)]
    assert utilisation(flights) == {
        ("N1", "2013-01-01"): (2, 60),
        ("N1", "2013-01-02"): (1, 60),
        ("N1", "2013-01-03"): (1, 60),
    }


def test_every_difference_is_told() -> None:
    wanted = {("N1", "2013-01-01"): (1, 60), ("N2", "2013-01-01"): (1, 60)}
    assert not list(differences(dict(wanted), wanted))
    found = {("N1", "2013-01-01"): (1, 61), ("N3", "2013-01-01"): (1, 60)}
    assert [text.partition(":")[0] for text in differences(found, wanted)] == [
        "N1 on 2013-01-01", "N2 on 2013-01-01", "N3 on 2013-01-01",
    ]  # fmt: skip
